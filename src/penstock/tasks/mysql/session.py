"""Connections to MySQL, and what its errors mean.

Each connection is told what the store relies on, whatever the server's defaults are: READ COMMITTED
(a locking read must not lock gaps, nor look at an old snapshot), strict mode (a value that does not
fit is an error, not a shorter value), and UTC.
"""

from __future__ import annotations

import asyncio
import weakref
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, TypeVar

from penstock.errors import DatabaseUnavailable, InvalidSetting, PenstockError
from penstock.tasks.errors import ServerUnsuitable, TablesMissing, TaskError, TaskTooLarge
from penstock.tasks.mysql.address import Address
from penstock.tasks.retrying import Fault, Try, persist
from penstock.tasks.sql import load

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from penstock.tasks.options import StoreOptions
    from penstock.tasks.sql import Parameters, Row, Session

try:
    import asyncmy
    from asyncmy.constants import CLIENT
except ImportError:
    raise InvalidSetting("MySQL needs its driver: pip install 'penstock-mq[mysql]'") from None

T = TypeVar("T")

_CONFLICTS = {
    1020,  # the row changed since it was read (MariaDB with snapshot isolation)
    1205,  # lock wait timeout
    1213,  # deadlock
    3572,  # not locked at once
}
_AWAY = {1040, 1053, 1077, 1079, 1152, 1158, 1159, 1160, 1161, 1184, 1290, 1792, 1836, 1927, 3032}
_AWAY |= {2002, 2003, 2006, 2013, 2014, 2027, 2055}
_MISSING = {1054, 1146}
_TOO_LARGE = {1153, 1406, 1301}
_SYNTAX = 1064
DUPLICATE = 1062
_CAP_LOCK_SECONDS = 10

_STATEMENTS = {each.name: each.sql for each in load("penstock.tasks.mysql").values()}
_SETTINGS = ("session_mode", "session_waits", "session_isolation")


class MySQLSession:
    """One connection, while one piece of work has it."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    async def rows(self, sql: str, parameters: Parameters | None = None) -> list[Row]:
        async with self._connection.cursor() as cursor:
            await cursor.execute(sql, _lists(parameters))
            return [tuple(row) for row in await cursor.fetchall()]

    async def run(self, sql: str, parameters: Parameters | None = None) -> int:
        async with self._connection.cursor() as cursor:
            found: int = await cursor.execute(sql, _lists(parameters))
            return found


def _lists(parameters: Parameters | None) -> Parameters | None:
    """The driver writes a tuple as a list in parentheses, as IN wants it."""
    if parameters is None:
        return None
    return {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in parameters.items()
    }


class MySQLDatabase:
    """A pool, whose work is repeated when the server was away or broke a deadlock."""

    def __init__(self, dsn: str, options: StoreOptions) -> None:
        self.address = Address.parse(dsn)
        self._options = options
        self._pool: Any = None
        self._configured: weakref.WeakSet[Any] = weakref.WeakSet()
        self._opening = asyncio.Lock()

    async def open(self) -> None:
        async with self._opening:
            if self._pool is None:
                self._pool = await asyncmy.create_pool(
                    minsize=0,
                    maxsize=self._options.pool_size,
                    charset="utf8mb4",
                    autocommit=True,
                    connect_timeout=self._options.connect_timeout.total_seconds(),
                    # Rows found, not changed: a lease extended to the same moment is held.
                    client_flag=CLIENT.FOUND_ROWS,
                    **self.address.arguments(),
                )

    async def close(self) -> None:
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.close()
            await pool.wait_closed()

    async def atomically(
        self, work: Callable[[Session, Try], Awaitable[T]], *, lock: str | None = None
    ) -> T:
        async def once(attempt: Try) -> T:
            async with self._connection() as connection, _locked(connection, lock):
                await connection.begin()
                try:
                    done = await work(MySQLSession(connection), attempt)
                    await connection.commit()
                except BaseException:
                    await _roll_back(connection)
                    raise
                return done

        return await self._persist(once)

    async def directly(self, work: Callable[[Session, Try], Awaitable[T]]) -> T:
        async def once(attempt: Try) -> T:
            async with self._connection() as connection:
                return await work(MySQLSession(connection), attempt)

        return await self._persist(once)

    async def _persist(self, once: Callable[[Try], Awaitable[T]]) -> T:
        try:
            return await persist(once, classify, self._options.retry_for)
        except (asyncmy.errors.MySQLError, OSError) as problem:
            raise explained(problem) from problem

    @asynccontextmanager
    async def _connection(self) -> AsyncIterator[Any]:
        pool = self._pool
        if pool is None:
            raise DatabaseUnavailable("the store is closed: use it inside `async with`")
        connection = await pool.acquire()
        try:
            if connection not in self._configured:
                for name in _SETTINGS:
                    await MySQLSession(connection).run(_STATEMENTS[name])
                self._configured.add(connection)
            yield connection
        except BaseException as problem:
            # The connection's state is unknown, unless the server itself refused something.
            if not isinstance(problem, Exception) or not _keeps_connection(problem):
                connection.close()
            raise
        finally:
            pool.release(connection)


async def _roll_back(connection: Any) -> None:
    with suppress(Exception):
        await connection.rollback()


@asynccontextmanager
async def _locked(connection: Any, name: str | None) -> AsyncIterator[None]:
    if name is None:
        yield
        return
    session = MySQLSession(connection)
    [row] = await session.rows(
        _STATEMENTS["cap_lock"], {"name": name, "seconds": _CAP_LOCK_SECONDS}
    )
    if row[0] != 1:
        raise asyncmy.errors.OperationalError(
            1205, "the lock of a capped reserve was not to be had"
        )
    try:
        yield
    finally:
        # A connection that broke has given its lock back already.
        with suppress(Exception):
            await session.rows(_STATEMENTS["cap_unlock"], {"name": name})


def code_of(problem: BaseException) -> int:
    if isinstance(problem, asyncmy.errors.MySQLError) and problem.args:
        code = problem.args[0]
        return code if isinstance(code, int) else -1
    return -1


def _keeps_connection(problem: Exception) -> bool:
    if isinstance(problem, TaskError):
        return True
    return isinstance(problem, asyncmy.errors.MySQLError) and classify(problem) is not Fault.AWAY


def classify(problem: Exception) -> Fault:
    """What an error means for the work that met it."""
    if isinstance(problem, OSError | EOFError):
        return Fault.AWAY
    code = code_of(problem)
    if code in _CONFLICTS:
        return Fault.CONFLICT
    # The driver says 0 when its connection is gone already.
    gone = isinstance(problem, asyncmy.errors.InterfaceError) and code <= 0
    return Fault.AWAY if code in _AWAY or gone else Fault.REFUSED


def explained(problem: Exception) -> PenstockError:
    """The error that a person can act on; the words are the server's own."""
    code = code_of(problem)
    words = str(problem.args[-1]) if problem.args else type(problem).__name__
    if code in _MISSING:
        return TablesMissing(f"{words}: run `penstock task init` on this database")
    if code in _TOO_LARGE:
        return TaskTooLarge(
            f"{words}: the column or max_allowed_packet is too small; "
            "`penstock task doctor` says which"
        )
    if code == _SYNTAX and "skip locked" in words.lower():
        return ServerUnsuitable(
            "this server has no SKIP LOCKED: MySQL 8.0 or MariaDB 10.6 is needed"
        )
    if classify(problem) is Fault.AWAY:
        return DatabaseUnavailable(
            f"the database can't be reached: {words}\n"
            "Check the DSN (--dsn or PENSTOCK_DSN) and that the server is running."
        )
    return TaskError(f"the database refused: {words} (error {code})")
