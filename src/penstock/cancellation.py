"""Ending tasks for certain."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

_PATIENCE_SECONDS = 1.0


async def end(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel tasks and wait for their end.

    Who does not end is told again: `asyncio.wait_for`, by which psycopg's pool waits, loses a
    cancellation of the moment in which its time comes (up to Python 3.11).
    """
    left = set(tasks)
    while left:
        for task in left:
            task.cancel()
        _, left = await asyncio.wait(left, timeout=_PATIENCE_SECONDS)
