"""A deadline that moves all the time: one timer a connection, which looks at the clock at times.

To set a timer for each step of each request and take it back would be work on every request for
what nearly never happens.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable


class Deadline:
    """Calls what was said last, once its time is over; it may be late by none of `shortest`."""

    def __init__(self, loop: asyncio.AbstractEventLoop, shortest: float) -> None:
        self._loop = loop
        self._shortest = shortest
        self._due: float | None = None
        self._overdue: Callable[[], None] | None = None
        self._timer = loop.call_later(shortest, self._look)

    @property
    def is_set(self) -> bool:
        return self._due is not None

    def set(self, seconds: float, overdue: Callable[[], None]) -> None:
        """From now on; no deadline is shorter than the shortest."""
        self._due = self._loop.time() + seconds
        self._overdue = overdue

    def unset(self) -> None:
        self._due = None

    def end(self) -> None:
        self._due = None
        self._timer.cancel()

    def _look(self) -> None:
        now, pause = self._loop.time(), self._shortest
        if self._due is not None:
            if self._due <= now:
                self._due = None
                if self._overdue is not None:
                    self._overdue()
            else:
                pause = min(pause, self._due - now)
        self._timer = self._loop.call_later(pause, self._look)
