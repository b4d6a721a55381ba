"""A worker that is cancelled, wherever it is, takes everything with it that it began."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

import penstock
from penstock import Worker
from tests.worker.play import until

if TYPE_CHECKING:
    from penstock import Client, Message


def ours() -> set[str]:
    return {
        task.get_coro().__qualname__  # type: ignore[union-attr]
        for task in asyncio.all_tasks() - {asyncio.current_task()}
    }


async def cancelled(running: asyncio.Task[None]) -> None:
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


async def test_while_it_waits_for_its_database() -> None:
    worker = Worker(penstock.connect("postgresql://localhost:1/nowhere"))
    worker.handler("billing")(print)
    before = ours()
    running = asyncio.create_task(worker.run(signals=False))
    await until(lambda: len(ours()) > len(before) + 1)
    await cancelled(running)
    assert ours() == before


async def test_while_it_stops_in_order(mq: Client) -> None:
    worker, began = Worker(mq), asyncio.Event()

    @worker.handler("billing")
    async def bill(message: Message[Any]) -> None:
        began.set()
        await asyncio.Event().wait()

    before = ours()
    running = asyncio.create_task(worker.run(signals=False))
    await mq.publish("orders", {})
    await began.wait()
    worker.ask_to_stop()
    await until(lambda: worker.status().state == "stopping")
    await cancelled(running)
    # What the client began stays, for it serves others too.
    assert not any("stop_in_order" in each or "Event.wait" in each for each in ours() - before)
