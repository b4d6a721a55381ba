"""Work on PostgreSQL as sessions, by the connections of `penstock.postgres`."""

from __future__ import annotations

import asyncio
import re
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

import psycopg

from penstock.errors import ClientClosed, PenstockError
from penstock.postgres import foreign
from penstock.postgres._async.database import Database
from penstock.postgres._async.listener import Listener
from penstock.postgres.call import Call
from penstock.postgres.session import listener_times
from penstock.tasks.errors import TablesMissing, TaskTooLarge
from penstock.tasks.task import new_task_id

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from contextlib import AbstractAsyncContextManager

    from penstock.postgres._async.connections import TimedConnection
    from penstock.postgres._async.listener import Watch
    from penstock.settings import Settings
    from penstock.tasks.stores.postgres_dialect import PostgresDialect
    from penstock.tasks.stores.sql_statements import Parameters, Row, Session

T = TypeVar("T")

_MISSING = ("42P01", "42703")
_TOO_LARGE = ("22001", "54000")
_NAMED = re.compile(r"%\((\w+)\)s")
_ONCE = timedelta(0)
# A row that its store could not remove is believed for this much longer than the store waits.
_BELIEVED = timedelta(seconds=5)


class PostgresSession:
    """One connection, while one piece of work has it."""

    def __init__(self, connection: TimedConnection, *, outcome_unknown: bool) -> None:
        self._connection = connection
        self.outcome_unknown = outcome_unknown

    async def rows(self, sql: str, parameters: Parameters | None = None) -> list[Row]:
        cursor = await self._connection.execute(sql.encode(), parameters)
        return await cursor.fetchall()

    async def run(self, sql: str, parameters: Parameters | None = None) -> int:
        cursor = await self._connection.execute(sql.encode(), parameters)
        return cursor.rowcount

    def transaction(self) -> AbstractAsyncContextManager[Any]:
        return self._connection.transaction()


class ForeignSession:
    """The caller's connection in its open transaction: of psycopg, asyncpg, SQLAlchemy, Django.

    Every statement gives rows, and nothing is repeated.
    """

    outcome_unknown = False

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    async def rows(self, sql: str, parameters: Parameters | None = None) -> list[Row]:
        return await foreign.run_async(self._connection, _call(sql, parameters or {}))

    async def run(self, sql: str, parameters: Parameters | None = None) -> int:
        return len(await self.rows(sql, parameters))


def _call(sql: str, parameters: Parameters) -> Call[list[Row]]:
    values = tuple(parameters[name] for name in _NAMED.findall(sql))
    return Call(_NAMED.sub("%s", sql), values, lambda found: [tuple(row) for row in found])


class PostgresDatabase:
    """The pools of one store, whose work is repeated where that may help."""

    def __init__(self, settings: Settings, *, find_pooler: bool = True) -> None:
        """`find_pooler`: whether sessions that turn out to be shared make it `pooled`."""
        self._database = Database(settings, engine=False)
        self._find_pooler = find_pooler

    @property
    def pooled(self) -> bool:
        """Whether a pooler in transaction mode is on the way: no LISTEN, nothing is prepared."""
        return self._database.settings.pooler

    async def open(self) -> None:
        """Find the server; opening twice is harmless."""
        if self._database.is_open:
            return
        await self._database.open()
        if self.pooled or not self._find_pooler:
            return
        try:
            shared = await self._run(_shares_sessions, atomic=False)
        except BaseException:
            await self.close()
            raise
        if shared:
            await self._database.close()
            settings = replace(self._database.settings, pooler=True)
            self._database = Database(settings, engine=False)
            await self._database.open()

    async def close(self) -> None:
        await self._database.close()

    async def atomically(
        self, work: Callable[[Session], Awaitable[T]], *, lasting: bool = False
    ) -> T:
        """Run work in one transaction."""
        return await self._run_work(work, atomic=True, lasting=lasting)

    async def directly(self, work: Callable[[Session], Awaitable[T]]) -> T:
        """Run work whose statements are each a transaction."""
        return await self._run_work(work, atomic=False)

    async def _run_work(
        self, work: Callable[[Session], Awaitable[T]], *, atomic: bool, lasting: bool = False
    ) -> T:
        async def once(connection: TimedConnection, outcome_unknown: bool) -> T:  # noqa: FBT001
            return await work(PostgresSession(connection, outcome_unknown=outcome_unknown))

        return await self._run(once, atomic=atomic, lasting=lasting)

    async def _run(
        self,
        once: Callable[[TimedConnection, bool], Awaitable[T]],
        *,
        atomic: bool,
        lasting: bool = False,
    ) -> T:
        try:
            return await self._database.run_session(once, atomic=atomic, lasting=lasting)
        except PenstockError as error:
            if isinstance(error, ClientClosed) and not self._database.is_open:
                raise ClientClosed("the store is closed: use it inside `async with`") from None
            raise _explained(error) from error.__cause__

    def wakeups(self, dialect: PostgresDialect, channel: str) -> Wakeups:
        """What hears of new tasks on this channel."""
        return Wakeups(self._database, dialect, channel)


async def _shares_sessions(connection: TimedConnection, _: bool) -> bool:  # noqa: FBT001
    """Whether the session's number is not that of the server process: a pooler made it up."""
    cursor = await connection.execute("select pg_backend_pid()")
    row = await cursor.fetchone()
    return row is not None and row[0] != connection.pgconn.backend_pid


def _explained(error: PenstockError) -> PenstockError:
    """The error that a person can act on."""
    cause = error.__cause__
    code = cause.sqlstate if isinstance(cause, psycopg.Error) else None
    if code is None:
        return error
    assert isinstance(cause, psycopg.Error)
    words = cause.diag.message_primary or str(cause)
    if code in _MISSING:
        return TablesMissing(f"{words}: run `penstock task init` on this database")
    if code.startswith(_TOO_LARGE):
        return TaskTooLarge(f"{words}: store large payloads elsewhere, and enqueue where they are")
    return error


class Wakeups:
    """Tells one store of new tasks, by a listening connection that the first wait opens.

    A store that waits registers in a table, and an enqueue notifies only if a store is registered.
    An enqueue that looked just before the store registered does not notify it, so the first waits
    of a worker are short.  A worker polls as well, and so finds a task that was not announced.
    """

    def __init__(self, database: Database, dialect: PostgresDialect, channel: str) -> None:
        self._database = database
        self._dialect = dialect
        self._channel = channel
        self._owner = new_task_id()
        self._listener = Listener(database, listener_times(database.settings.heartbeat))
        self._watch: Watch | None = None
        self._lock = asyncio.Lock()

    async def wait(self, at_most: timedelta) -> bool:
        """True: a task came, or the connection was made or lost, so look."""
        try:
            async with asyncio.timeout(at_most.total_seconds()):
                watch = await self._watching()
                await self._tell("start_waiting", {"for": at_most + _BELIEVED})
                return await watch.wait(at_most.total_seconds())
        except TimeoutError:
            return False
        except PenstockError:
            # Polling goes on at its own pace while the server is away.
            await asyncio.sleep(min(1.0, at_most.total_seconds()))
            return True

    async def _watching(self) -> Watch:
        async with self._lock:
            if self._watch is None:
                name = Call("select %s::text", (self._channel,), lambda found: str(found[0][0]))
                watch = self._listener.watch(name)
                self._watch = await watch.__aenter__()
            return self._watch

    async def _tell(self, statement: str, parameters: Parameters) -> None:
        call = _call(self._dialect[statement], {"owner": self._owner, **parameters})
        await self._database.run(call, retry_for=_ONCE)

    async def close(self) -> None:
        if self._watch is not None:
            await self._watch.__aexit__(None, None, None)
            self._watch = None
            with suppress(PenstockError):
                await self._tell("stop_waiting", {})
        await self._listener.close()
