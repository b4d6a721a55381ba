"""Being woken by an enqueue: one listening connection for each store, opened when first needed.

A store that waits registers in a table, and an enqueue notifies only if a store is registered.  An
enqueue that looked just before we registered does not notify us, so the first waits are short.  A
worker polls as well, and so finds a task that was not announced.
"""

from __future__ import annotations

import asyncio
import hashlib
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import psycopg

from penstock.tasks.task import new_task_id

if TYPE_CHECKING:
    from penstock.tasks.postgres.dialect import PostgresDialect

# A row that its owner could not remove is believed for this much longer than the sleep.
_BELIEVED = timedelta(seconds=5)


def channel_of(table: str, schema: str) -> str:
    """A short name, whatever the table is called."""
    digest = hashlib.sha256(f"{schema}.{table}".encode()).hexdigest()[:24]
    return f"penstock_tasks_{digest}"


class Listener:
    """Hears of new tasks in one table."""

    def __init__(self, dsn: str, dialect: PostgresDialect, channel: str) -> None:
        self._dsn = dsn
        self._dialect = dialect
        self._channel = channel
        self._owner = new_task_id()
        self._connection: psycopg.AsyncConnection[Any] | None = None
        self._lock = asyncio.Lock()
        self._heard = asyncio.Event()

    async def wait(self, at_most: timedelta) -> bool:
        """True: something came, or the connection was made or lost, so look."""
        try:
            async with asyncio.timeout(at_most.total_seconds()):
                async with self._lock:
                    return await self._listen(at_most)
        except TimeoutError:
            return False
        except psycopg.Error:
            await self.close()
            # Polling goes on at its own pace while the server is away.
            await asyncio.sleep(min(1.0, at_most.total_seconds()))
            return True

    async def _listen(self, at_most: timedelta) -> bool:
        if self._connection is None:
            self._connection = await self._connect()
            await self._sleeps(at_most)
            # What came before we listened is found by one more look.
            return True
        await self._sleeps(at_most)
        async for _ in self._connection.notifies(timeout=at_most.total_seconds(), stop_after=1):
            return True
        return False

    async def _connect(self) -> psycopg.AsyncConnection[Any]:
        connection = await psycopg.AsyncConnection.connect(
            self._dsn, autocommit=True, application_name="penstock tasks listener"
        )
        try:
            await connection.execute(f"listen {self._channel}".encode())
        except BaseException:
            await connection.close()
            raise
        return connection

    async def _sleeps(self, at_most: timedelta) -> None:
        assert self._connection is not None
        await self._connection.execute(
            self._dialect["start_waiting"].encode(),
            {"owner": self._owner, "for": at_most + _BELIEVED},
        )

    async def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is None:
            return
        with suppress(psycopg.Error):
            await connection.execute(self._dialect["stop_waiting"].encode(), {"owner": self._owner})
        await connection.close()
