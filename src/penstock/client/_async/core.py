"""What every part of the client stands on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from penstock.client._async.database import Database
from penstock.client._async.listener import Listener
from penstock.client.listening import rhythm

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from psycopg import AsyncConnection

    from penstock.client._async.consumer import Consumer
    from penstock.client.calls import Call
    from penstock.settings import Settings

T = TypeVar("T")


class Core:
    """A database, and calls on it."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.database = Database(settings)
        self._listener: Listener | None = None
        self.consumers: set[Consumer[Any]] = set()
        """Those that are open: they end before the connections do."""

    @property
    def listener(self) -> Listener:
        """What wakes those who wait for a queue; its connection is made when somebody does."""
        if self._listener is None:
            self._listener = Listener(self.database, rhythm(self.settings.heartbeat))
        return self._listener

    async def run(self, call: Call[T], *, connection: Any = None) -> T:
        """Run any call of `penstock.client.calls`."""
        return await self.database.run(call, connection=connection)

    def transaction(self) -> AbstractAsyncContextManager[AsyncConnection[Any]]:
        """A psycopg connection in a transaction, which the end of the block commits.

        Give it to calls as `connection=`: what they do and what you do commits together.
        """
        return self.database.transaction()

    async def open(self) -> None:
        """Connect; `async with` does it too."""
        await self.database.open()

    async def close(self) -> None:
        """End every connection."""
        for consumer in list(self.consumers):
            await consumer.close()
        listener, self._listener = self._listener, None
        try:
            if listener is not None:
                await listener.close()
        finally:
            await self.database.close()
