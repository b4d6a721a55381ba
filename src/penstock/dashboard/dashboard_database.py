"""The dashboard's way to the database: one connection for all readers, one for each action.

Reading is done with the rights of `penstock_monitor` where the login may take them on.  Messages
and actions need the login's own rights: what the login may not see or do, no user can here.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

import psycopg
from psycopg import IsolationLevel
from psycopg.rows import tuple_row

from penstock.errors import translated
from penstock.postgres import connect_async

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from psycopg import AsyncConnection

    from penstock.client.calls import Call
    from penstock.postgres._async.connections import TimedConnection
    from penstock.settings import Settings

T = TypeVar("T")

_NAME = "penstock dashboard"
_MONITOR = "penstock_monitor"
_LOOK_SECONDS = 10
_ACT_SECONDS = 300
_CONNECT_TIMEOUT = timedelta(seconds=5)


class DashboardDatabase:
    """Runs calls; `look` on the shared connection, `act` in a transaction of its own."""

    def __init__(self, settings: Settings) -> None:
        self._settings = replace(
            settings,
            application_name=_NAME,
            connect_timeout=min(settings.connect_timeout, _CONNECT_TIMEOUT),
            # Nothing here needs a session, so a pooler that the settings forgot does no harm.
            pooler=True,
        )
        self._shared: TimedConnection | None = None
        self._is_monitor = False
        self._turn = asyncio.Lock()
        self.name = ""

    async def close(self) -> None:
        if self._shared is not None:
            await self._shared.close()
            self._shared = None

    async def look(self, call: Call[T], *, as_monitor: bool = True) -> T:
        """The answer of one call that changes nothing."""
        async with self.looking(as_monitor=as_monitor) as connection:
            return await _run(connection, call)

    @asynccontextmanager
    async def looking(self, *, as_monitor: bool = True) -> AsyncIterator[AsyncConnection[Any]]:
        """A read-only transaction on the shared connection; others wait until it ends."""
        async with self._turn:
            connection = await self._connected()
            role = _MONITOR if as_monitor and self._is_monitor else None
            try:
                with translated():
                    async with connection.transaction():
                        await _prepare(connection, role, _LOOK_SECONDS, read_only=True)
                        yield connection
            finally:
                if connection.broken:
                    await self.close()

    async def run(self, connection: AsyncConnection[Any], call: Call[T]) -> T:
        return await _run(connection, call)

    async def act(self, *calls: Call[Any]) -> list[Any]:
        """Do all of them or none, with the login's own rights; purging may take its time."""
        async with self._acting() as connection:
            return [await _run(connection, call) for call in calls]

    async def act_elsewhere(
        self, work: Callable[[], Awaitable[T]], entry: Callable[[T | None], Call[int]]
    ) -> int:
        """Do something in another database, and record it in this one; the entry's number.

        The entry is tried first and rolled back: what could not be recorded is not done.  It is
        written after the work, with its result, and work that fails leaves none.
        """
        async with self._acting() as connection:
            async with connection.transaction(force_rollback=True):
                await _run(connection, entry(None))
            return await _run(connection, entry(await work()))

    @asynccontextmanager
    async def _acting(self) -> AsyncIterator[AsyncConnection[Any]]:
        with translated():
            async with await self._connect() as connection:
                # The server's own limit ends a long statement; it has to answer after that.
                with connection.answering(_ACT_SECONDS + _LOOK_SECONDS):
                    async with connection.transaction():
                        await _prepare(connection, None, _ACT_SECONDS, read_only=False)
                        yield connection
                connection.standby.require_confirmed()

    async def _connected(self) -> TimedConnection:
        if self._shared is None or self._shared.closed:
            with translated():
                self._shared = await self._connect()
                self._is_monitor = await _may_monitor(self._shared)
                self.name = self._shared.info.dbname
        return self._shared

    async def _connect(self) -> TimedConnection:
        connection = await connect_async(self._settings)
        # Said with each transaction, whatever the database's default is.
        await connection.set_isolation_level(IsolationLevel.READ_COMMITTED)
        return connection


async def _run(connection: AsyncConnection[Any], call: Call[T]) -> T:
    with translated():
        async with connection.cursor(row_factory=tuple_row) as cursor:
            await cursor.execute(call.sql, call.parameters)
            return call.read(await cursor.fetchall())


async def _prepare(
    connection: AsyncConnection[Any], role: str | None, seconds: int, *, read_only: bool
) -> None:
    """For this transaction only, so that a pooler may give the connection to others after it."""
    await connection.execute(
        "select set_config('statement_timeout', %s, true), "
        "set_config('transaction_read_only', %s, true), "
        "set_config('role', coalesce(%s, current_setting('role')), true)",
        (str(seconds * 1000), "on" if read_only else "off", role),
    )


async def _may_monitor(connection: AsyncConnection[Any]) -> bool:
    with suppress(psycopg.Error):
        async with connection.transaction():
            await connection.execute("select set_config('role', %s, true)", (_MONITOR,))
            return True
    return False
