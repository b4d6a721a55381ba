"""How the async client waits.  `_sync/concurrency.py` offers the same names with threads.

Listener and consumer are written with these few things only, so that their blocking twins can be
generated from them.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, TypeVar

from penstock.cancellation import end
from penstock.errors import ClientClosed

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from typing import Any

__all__ = [
    "Background",
    "Cancelled",
    "Doorbell",
    "Event",
    "Lock",
    "current_task",
    "home",
    "in_thread",
    "monotonic",
    "not_at_home",
    "on_fork",
    "sleep",
]

T = TypeVar("T")

Cancelled = asyncio.CancelledError
Lock = asyncio.Lock
monotonic = time.monotonic
sleep = asyncio.sleep
home = asyncio.get_running_loop
current_task = asyncio.current_task


def not_at_home() -> ClientClosed:
    """The error where a client's connections can't be used: in another event loop."""
    return ClientClosed(
        "the client was opened in another event loop, and its connections belong to that: "
        "open, use and close it within one asyncio.run()"
    )


def on_fork(_forget: Callable[[], None]) -> None:
    """Nothing to do: a forked process has no running event loop, so the client is refused there."""


async def in_thread(function: Callable[[], T]) -> T:
    """Run what blocks for long without blocking the event loop."""
    return await asyncio.to_thread(function)


class Event:
    """Something that may have happened."""

    def __init__(self) -> None:
        self._event = asyncio.Event()
        self.set = self._event.set
        self.clear = self._event.clear
        self.is_set = self._event.is_set

    async def wait(self, timeout: float | None = None) -> bool:  # noqa: ASYNC109 - as in threads
        """True once it has happened, False when the time was up first."""
        if self._event.is_set():
            return True
        try:
            async with asyncio.timeout(timeout):
                return await self._event.wait()
        except TimeoutError:
            return False


class Doorbell:
    """Wakes one loop that sleeps, also when its socket has something to read."""

    def __init__(self) -> None:
        self._event = Event()
        self.ring = self._event.set

    async def wait(self, socket: int | None, timeout: float) -> None:  # noqa: ASYNC109
        """Sleep until the bell rings, the socket can be read, or the time is up."""
        loop = asyncio.get_running_loop()
        if socket is not None:
            loop.add_reader(socket, self._event.set)
        try:
            await self._event.wait(timeout)
        finally:
            if socket is not None:
                loop.remove_reader(socket)
            self._event.clear()

    def close(self) -> None:
        """Nothing to give back: the event loop did the waiting."""


class Background:
    """A loop that runs beside its owner's."""

    def __init__(self, run: Callable[[], Coroutine[Any, Any, None]], name: str) -> None:
        self._run = run
        self._name = name
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name=self._name)

    async def stop(self, patience: float = 0) -> None:
        """Wait for its end, which its owner has asked for; after that long, make it end."""
        task, self._task = self._task, None
        if task is None or task is asyncio.current_task():
            return
        if patience > 0:
            await asyncio.wait([task], timeout=patience)
        await end([task])
        # Its loop deals with what may go wrong; anything else is a fault of ours, and is told.
        if not task.cancelled():
            task.result()
