"""Opening and closing the door with the server, told in ASGI's lifespan messages by uvicorn."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.sqs.assembly import Door

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


class Lifespan:
    """`await lifespan(scope, receive, send)`; requests don't come this way (see connection.py)."""

    def __init__(self, door: Door) -> None:
        self._door = door
        self.problem: Exception | None = None
        """Why the door could not be opened."""

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        assert scope["type"] == "lifespan"
        await receive()
        try:
            await self._door.open()
        except Exception as problem:  # noqa: BLE001 - the server has to hear why
            self.problem = problem
            await send({"type": "lifespan.startup.failed", "message": ""})
            return
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await self._door.close()
        await send({"type": "lifespan.shutdown.complete"})
