"""Tasks end, also those that miss a cancellation."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from penstock import cancellation

if TYPE_CHECKING:
    import pytest


async def test_a_task_that_loses_a_cancellation_is_told_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cancellation, "_PATIENCE_SECONDS", 0.01)

    async def hard_of_hearing() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await asyncio.Event().wait()

    task = asyncio.create_task(hard_of_hearing())
    await asyncio.sleep(0)
    await cancellation.end([task])
    assert task.cancelled()


async def test_failures_of_tasks_that_end_are_left_to_their_owner() -> None:
    async def failing() -> None:
        raise ValueError("told elsewhere")

    task = asyncio.create_task(failing())
    await asyncio.sleep(0)
    await cancellation.end([task])
    assert isinstance(task.exception(), ValueError)


async def test_nothing_to_end_is_no_trouble() -> None:
    await cancellation.end([])
