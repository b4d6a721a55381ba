"""Enqueues tasks, and works on them, through a task store."""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
from datetime import timedelta
from typing import TYPE_CHECKING

from penstock.tasks import LeaseLost, NewTask, TaskError, open_store
from penstock.tasks.options import StoreOptions
from prove.actors.names import QUEUE
from prove.ledger import Ledger, Step

if TYPE_CHECKING:
    import argparse

    from penstock.tasks.store import TaskStore

BATCH = 5


async def enqueue(options: argparse.Namespace, ledger: Ledger) -> None:
    """Enqueue numbers until told to stop."""
    stop = _stopping()
    numbers = itertools.count(options.first)
    async with open_store(options.dsn, StoreOptions(pool_size=2)) as store:
        while not stop.is_set():
            await _enqueue(store, list(itertools.islice(numbers, BATCH)), ledger)
            await asyncio.sleep(options.pause)


async def _enqueue(store: TaskStore, numbers: list[int], ledger: Ledger) -> None:
    for number in numbers:
        ledger.note(Step.ATTEMPT, number)
    tasks = [NewTask(QUEUE, str(number).encode(), max_attempts=1000) for number in numbers]
    try:
        await store.insert_many(tasks)
    except (TaskError, OSError):
        step = Step.UNKNOWN
    else:
        step = Step.ACKED
    for number in numbers:
        ledger.note(step, number)


async def perform(options: argparse.Namespace, ledger: Ledger) -> None:
    """Work on what there is, one task after the other."""
    stop = _stopping()
    lease = timedelta(seconds=options.claim)
    owner = f"worker-{os.getpid()}"
    async with open_store(options.dsn, StoreOptions(pool_size=2)) as store:
        while not stop.is_set():
            taken = await store.reserve(owner, topics=[QUEUE], limit=BATCH, lease=lease)
            for task in taken:
                number = int(task.payload)
                # Tasks have no number of their own: the publisher's will do.
                ledger.note(Step.DELIVERED, number, number + 1, task.attempts, QUEUE)
                try:
                    await store.ack(task.lease)
                except LeaseLost:
                    continue
                ledger.note(Step.DONE, number, number + 1, task.attempts, QUEUE)
            if not taken:
                await asyncio.sleep(0.05)


def _stopping() -> asyncio.Event:
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    return stop
