"""A fire of a schedule that was purged is not made once more by a worker that looks back."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING

from penstock.observe import Name, subscribe
from penstock.tasks import NewTask, Stats, Status, TaskId, TaskWorker

if TYPE_CHECKING:
    from penstock.observe import Event
    from penstock.tasks.store import TaskStore

SOON = timedelta(seconds=20)
DAY = timedelta(days=1)


async def daily(store: TaskStore) -> str:
    """The cron line of every day at this time, two hours ago."""
    past = await store.now() - timedelta(hours=2)
    return f"{past.minute} {past.hour} * * *"


async def until_fired(store: TaskStore, cron: str) -> None:
    """Run a worker until it has dealt with the schedule's fire of today."""
    fired = asyncio.Event()
    loop = asyncio.get_running_loop()

    def hear(event: Event) -> None:
        if event.name is Name.SCHEDULE_FIRED:
            loop.call_soon_threadsafe(fired.set)

    worker = TaskWorker(store)
    worker.schedule(cron, topic="report", missed="latest")
    with subscribe(hear):
        running = asyncio.create_task(worker.run(handle_signals=False))
        await asyncio.wait_for(fired.wait(), SOON.total_seconds())
        worker.stop()
        await asyncio.wait_for(running, SOON.total_seconds())


async def test_a_fire_that_was_purged_is_not_made_again(store: TaskStore):
    cron = await daily(store)
    await until_fired(store, cron)
    [task] = await store.reserve("w")
    await store.ack(task.lease)
    await store.purge(timedelta(0))
    await until_fired(store, cron)
    assert await store.stats() == Stats(done=1)


async def test_a_fire_is_purged_when_no_worker_looks_back_to_it_any_more(store: TaskStore):
    await store.insert(NewTask("report", id=TaskId("cron-7")))
    [task] = await store.reserve("w")
    await store.move_to_dlq(task.lease, "no use")
    assert await store.purge(timedelta(0), statuses=[Status.DEAD]) == 0
    store.shift_clock(DAY)
    assert await store.purge(timedelta(0), statuses=[Status.DEAD]) == 0
    store.shift_clock(DAY)
    assert await store.purge(timedelta(0), statuses=[Status.DEAD]) == 1
