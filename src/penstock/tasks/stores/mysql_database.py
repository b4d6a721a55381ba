"""Connections to MySQL and MariaDB, and what their errors mean.

A DSN is `mysql://user:password@host:3306/database?unix_socket=/path&ssl_ca=…`.

Each connection is told what the store relies on, whatever the server's defaults are: READ COMMITTED
(a locking read must not lock gaps, nor look at an old snapshot), strict mode (a value that does not
fit is an error, not a shorter value), and UTC.
"""

from __future__ import annotations

import asyncio
import ssl
import time
import weakref
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import parse_qs, unquote, urlsplit

from penstock.errors import (
    CallTimeout,
    ClientClosed,
    DatabaseUnavailable,
    InvalidSetting,
    PenstockError,
)
from penstock.postgres._async.database import rest
from penstock.postgres.call import Repeat
from penstock.postgres.faults import LASTING_SECONDS, Fault, Kind, Patience
from penstock.tasks.errors import ServerUnsuitable, TablesMissing, TaskError, TaskTooLarge
from penstock.tasks.stores.sql_statements import load

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from penstock.settings import Settings
    from penstock.tasks.stores.sql_statements import Parameters, Row, Session

try:
    import asyncmy
    from asyncmy.constants import CLIENT
except ImportError:
    raise InvalidSetting("MySQL needs its driver: pip install 'penstock-mq[mysql]'") from None

T = TypeVar("T")

SCHEMES = ("mysql", "mariadb")
_OPTIONS = {"unix_socket", "ssl", "ssl_ca"}
_PORT = 3306

_DEADLOCKS = {
    1020,  # the row changed since it was read (MariaDB with snapshot isolation)
    1213,  # deadlock
}
_LOCK_TIMEOUTS = {
    1205,  # lock wait timeout
    3572,  # not locked at once
}
_READ_ONLY = {1290, 1792, 1836}
_AWAY = {1040, 1053, 1077, 1079, 1152, 1158, 1159, 1160, 1161, 1184, 1927, 3032}
_AWAY |= {2002, 2003, 2006, 2013, 2014, 2027, 2055}
_MISSING = {1054, 1146}
_TOO_LARGE = {1153, 1406, 1301}
_SYNTAX = 1064
DUPLICATE = 1062
_CAP_LOCK_SECONDS = 10
_ROLLBACK_SECONDS = 2.0

_STATEMENTS = {each.name: each.sql for each in load("mysql_statements.sql").values()}
_SETTINGS = ("session_mode", "session_waits", "session_isolation")


@dataclass(frozen=True, slots=True)
class Address:
    """The parts of a DSN."""

    host: str
    port: int
    user: str | None
    database: str
    password: str = field(default="", repr=False)
    unix_socket: str | None = None
    ssl_ca: str | None = None
    encrypted: bool = False

    @classmethod
    def parse(cls, dsn: str) -> Address:
        # The DSN itself is never repeated: it may hold a password.
        try:
            parts = urlsplit(dsn)
            dsn.encode()
        except ValueError:
            raise InvalidSetting("the DSN can't be read: mysql://user@host/database") from None
        if parts.scheme.partition("+")[0] not in SCHEMES:
            raise InvalidSetting("a MySQL DSN begins with mysql:// or mariadb://")
        options = {name: values[-1] for name, values in parse_qs(parts.query).items()}
        unknown = options.keys() - _OPTIONS
        if unknown:
            raise InvalidSetting(
                f"the DSN has unknown options {', '.join(sorted(unknown))}: "
                f"known are {', '.join(sorted(_OPTIONS))}"
            )
        database = unquote(parts.path.lstrip("/"))
        if not database:
            raise InvalidSetting("the DSN names no database: mysql://user@host/database")
        return cls(
            host=parts.hostname or "localhost",
            port=_port(parts),
            user=unquote(parts.username) if parts.username else None,
            password=unquote(parts.password or ""),
            database=database,
            unix_socket=options.get("unix_socket"),
            ssl_ca=options.get("ssl_ca"),
            encrypted=options.get("ssl", "").lower() in ("1", "true", "yes", "on"),
        )

    def arguments(self) -> dict[str, Any]:
        """What the driver's connect wants."""
        return {
            "host": self.host,
            "port": self.port,
            "user": self.user,
            "password": self.password,
            "db": self.database,
            "unix_socket": self.unix_socket,
            "ssl": self._context(),
        }

    def _context(self) -> ssl.SSLContext | None:
        if self.ssl_ca is None and not self.encrypted:
            return None
        return ssl.create_default_context(cafile=self.ssl_ca)


def _port(parts: Any) -> int:
    try:
        return int(parts.port or _PORT)
    except ValueError:
        raise InvalidSetting("the DSN's port is not a number from 1 to 65535") from None


class ServerSilent(TimeoutError):
    """The server did not answer a statement in time."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"the server did not answer within {seconds:.3g} s")


class NoConnection(TimeoutError):
    """No connection was made, or became free, in time."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"no connection was made, or became free, within {seconds:.3g} s")


class MySQLSession:
    """One connection, while one piece of work has it; each statement has a limit."""

    def __init__(self, connection: Any, seconds: float, *, outcome_unknown: bool = False) -> None:
        self._connection = connection
        self._seconds = seconds
        self.outcome_unknown = outcome_unknown

    async def rows(self, sql: str, parameters: Parameters | None = None) -> list[Row]:
        async with self._limited(), self._connection.cursor() as cursor:
            await cursor.execute(sql, _lists(parameters))
            return [tuple(row) for row in await cursor.fetchall()]

    async def run(self, sql: str, parameters: Parameters | None = None) -> int:
        async with self._limited(), self._connection.cursor() as cursor:
            found: int = await cursor.execute(sql, _lists(parameters))
            return found

    async def begin(self) -> None:
        async with self._limited():
            await self._connection.begin()

    async def commit(self) -> None:
        async with self._limited():
            await self._connection.commit()

    async def roll_back(self) -> None:
        """Undo; a server that can't be reached any more does so by itself."""
        if not self._connection.connected:
            return
        with suppress(Exception):
            async with asyncio.timeout(min(self._seconds, _ROLLBACK_SECONDS)):
                await self._connection.rollback()

    @asynccontextmanager
    async def _limited(self) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(self._seconds):
                yield
        except TimeoutError:
            raise ServerSilent(self._seconds) from None


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

    def __init__(self, dsn: str, settings: Settings) -> None:
        self.address = Address.parse(dsn)
        self._settings = settings
        self._pool: Any = None
        self._configured: weakref.WeakSet[Any] = weakref.WeakSet()
        self._opening = asyncio.Lock()

    async def open(self) -> None:
        async with self._opening:
            if self._pool is None:
                self._pool = await asyncmy.create_pool(
                    minsize=0,
                    maxsize=self._settings.pool_size,
                    charset="utf8mb4",
                    autocommit=True,
                    connect_timeout=self._settings.connect_timeout.total_seconds(),
                    # Rows found, not changed: a lease extended to the same moment is held.
                    client_flag=CLIENT.FOUND_ROWS,
                    **self.address.arguments(),
                )

    async def close(self) -> None:
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.close()
            try:
                async with asyncio.timeout(self._settings.connect_timeout.total_seconds()):
                    await pool.wait_closed()
            except TimeoutError:
                pool.terminate()

    async def atomically(
        self,
        work: Callable[[Session], Awaitable[T]],
        *,
        lock: str | None = None,
        lasting: bool = False,
    ) -> T:
        """Run work in one transaction; with `lock`, while that lock is held."""
        return await self._run(work, atomic=True, lock=lock, lasting=lasting)

    async def directly(
        self, work: Callable[[Session], Awaitable[T]], *, lasting: bool = False
    ) -> T:
        """Run work whose statements are each a transaction."""
        return await self._run(work, atomic=False, lasting=lasting)

    async def _run(
        self,
        work: Callable[[Session], Awaitable[T]],
        *,
        atomic: bool,
        lock: str | None = None,
        lasting: bool = False,
    ) -> T:
        patience = Patience(self._settings.retry_for, time.monotonic())
        limit = LASTING_SECONDS if lasting else self._settings.call_timeout.total_seconds()
        unknown = False
        while True:
            sent = False
            try:
                async with self._connection() as connection:
                    session = MySQLSession(connection, limit, outcome_unknown=unknown)
                    if not atomic:
                        sent = True
                        return await work(session)
                    async with _locked(session, lock), _transaction(session):
                        done = await work(session)
                        # What breaks from here on may have been committed.
                        sent = True
                    return done
            except (asyncmy.errors.MySQLError, OSError, EOFError) as problem:
                fault, cause = classify(problem, sent=sent), problem
            await rest(patience, fault, Repeat.ALWAYS, cause)
            unknown |= fault.kind is Kind.CONNECTION_LOST

    @asynccontextmanager
    async def _connection(self) -> AsyncIterator[Any]:
        pool = self._pool
        if pool is None:
            raise ClientClosed("the store is closed: use it inside `async with`")
        connection = await self._acquired(pool)
        try:
            if connection not in self._configured:
                session = MySQLSession(connection, self._settings.call_timeout.total_seconds())
                for name in _SETTINGS:
                    await session.run(_STATEMENTS[name])
                self._configured.add(connection)
            yield connection
        except BaseException as problem:
            # The connection's state is unknown, unless the server itself refused something.
            if not isinstance(problem, Exception) or not _keeps_connection(problem):
                connection.close()
            raise
        finally:
            pool.release(connection)

    async def _acquired(self, pool: Any) -> Any:
        seconds = self._settings.connect_timeout.total_seconds()
        try:
            async with asyncio.timeout(seconds):
                return await pool.acquire()
        except TimeoutError:
            raise NoConnection(seconds) from None


@asynccontextmanager
async def _transaction(session: MySQLSession) -> AsyncIterator[None]:
    await session.begin()
    try:
        yield
        await session.commit()
    except BaseException:
        await session.roll_back()
        raise


@asynccontextmanager
async def _locked(session: MySQLSession, name: str | None) -> AsyncIterator[None]:
    if name is None:
        yield
        return
    [row] = await session.rows(
        _STATEMENTS["cap_lock"], {"name": name, "seconds": _CAP_LOCK_SECONDS}
    )
    if row[0] != 1:
        raise asyncmy.errors.OperationalError(
            1205, "the lock of a capped reserve was not granted in time"
        )
    try:
        yield
    finally:
        # A connection that broke has given its lock back already.
        with suppress(Exception):
            await session.rows(_STATEMENTS["cap_unlock"], {"name": name})


def code_of(problem: BaseException) -> int:
    """The server's number of an error; -1: it has none."""
    if isinstance(problem, asyncmy.errors.MySQLError) and problem.args:
        code = problem.args[0]
        return code if isinstance(code, int) else -1
    return -1


def _keeps_connection(problem: Exception) -> bool:
    if isinstance(problem, TaskError):
        return True
    if not isinstance(problem, asyncmy.errors.MySQLError):
        return False
    return not classify(problem).spoils_connection


def classify(problem: Exception, *, sent: bool = True) -> Fault:
    """What an error means for the work that met it; `sent`: it may have been committed."""
    code, error = code_of(problem), explained(problem)
    if code in _DEADLOCKS:
        return Fault(Kind.DEADLOCK, error)
    if code in _LOCK_TIMEOUTS:
        return Fault(Kind.LOCK_TIMEOUT, error)
    if code in _READ_ONLY:
        return Fault(Kind.STANDBY, error)
    if not _is_away(problem):
        return Fault(Kind.REFUSED, error)
    lost = sent and not isinstance(problem, NoConnection)
    return Fault(Kind.CONNECTION_LOST if lost else Kind.UNREACHABLE, error)


def _is_away(problem: Exception) -> bool:
    if isinstance(problem, OSError | EOFError):
        return True
    code = code_of(problem)
    # The driver says 0 when its connection is gone already.
    gone = isinstance(problem, asyncmy.errors.InterfaceError) and code <= 0
    return gone or code in _AWAY or code in _READ_ONLY


def explained(problem: Exception) -> PenstockError:
    """The error that a person can act on; the words are the server's own."""
    code = code_of(problem)
    words = str(problem.args[-1]) if problem.args else type(problem).__name__
    if isinstance(problem, ServerSilent):
        return CallTimeout(words)
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
    if _is_away(problem):
        return DatabaseUnavailable(
            f"the database can't be reached: {words}\n"
            "Check the DSN (--dsn or PENSTOCK_DSN) and that the server is running."
        )
    return TaskError(f"the database refused: {words} (error {code})")
