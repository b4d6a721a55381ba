"""MariaDB killed under load: whatever was promised is there when it comes back."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from penstock.tasks import LeaseLost, NewTask, Stats, TaskId, open_store
from penstock.tasks.options import StoreOptions
from tests.tasks import mariadb as private

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.tasks.store import TaskStore

# Long enough for a server to come back, short enough for the end of the test to wait for.
LEASE = timedelta(seconds=20)


@pytest.fixture
def durable() -> Iterator[private.MariaDB]:
    """A server that keeps what it has committed."""
    try:
        with private.running("--innodb-flush-log-at-trx-commit=1") as server:
            server.administer("create database shop")
            yield server
    except private.Missing as problem:
        pytest.skip(str(problem))


class Ledger:
    """What the store has promised, seen from outside."""

    def __init__(self) -> None:
        self.enqueued: set[TaskId] = set()
        self.acked: list[TaskId] = []
        self.lost_leases = 0


async def enqueue(store: TaskStore, ledger: Ledger, stopped: asyncio.Event) -> None:
    while not stopped.is_set():
        batch = [NewTask("mail", b"x" * 200) for _ in range(5)]
        ledger.enqueued.update(await store.insert_many(batch))
        await asyncio.sleep(0.002)


async def work(store: TaskStore, ledger: Ledger, stopped: asyncio.Event, owner: str) -> None:
    while not stopped.is_set():
        taken = await store.reserve(owner, topics=["mail"], limit=5, lease=LEASE)
        for task in taken:
            await ack(store, ledger, task)
        if not taken:
            await asyncio.sleep(0.01)


async def ack(store: TaskStore, ledger: Ledger, task: Any) -> None:
    try:
        await store.ack(task.lease)
    except LeaseLost:
        ledger.lost_leases += 1
    else:
        ledger.acked.append(task.id)


async def ordeal(server: private.MariaDB, kills: int, pause: float) -> None:
    ledger, stopped = Ledger(), asyncio.Event()
    store = open_store(server.dsn("shop"), StoreOptions(pool_size=6))
    await store.create_tables()
    try:
        load = [asyncio.create_task(enqueue(store, ledger, stopped)) for _ in range(2)]
        load += [
            asyncio.create_task(work(store, ledger, stopped, f"w{number}")) for number in range(3)
        ]
        for _ in range(kills):
            await asyncio.sleep(pause)
            before = len(ledger.acked)
            await asyncio.to_thread(server.kill)
            await asyncio.to_thread(server.start)
            await progress(ledger, before)
        stopped.set()
        await asyncio.gather(*load)
        await settle(store, ledger)
    finally:
        await store.close()


async def progress(ledger: Ledger, before: int) -> None:
    """Work goes on after the crash without anybody's help."""
    async with asyncio.timeout(60):
        while True:
            if len(ledger.acked) > before:
                return
            await asyncio.sleep(0.02)


async def settle(store: TaskStore, ledger: Ledger) -> None:
    done = {task.id for task in await store.list_tasks(limit=10**6) if task.status == "done"}
    assert set(ledger.acked) <= done, "an ack was lost"
    assert len(ledger.acked) == len(set(ledger.acked)), "a task was acked twice"
    # A reserve whose answer was lost left its tasks leased to nobody who knows of it.
    store.shift_clock(2 * LEASE)
    while taken := await store.reserve("last", limit=200, lease=timedelta(minutes=10)):
        for task in taken:
            await store.ack(task.lease)
    stored = {task.id for task in await store.list_tasks(limit=10**6)}
    assert ledger.enqueued <= stored, "an enqueued task was lost"
    assert await store.stats() == Stats(done=len(stored))
    assert ledger.lost_leases == 0


async def test_a_killed_server_loses_nothing_that_was_acknowledged(durable: private.MariaDB):
    await ordeal(durable, kills=2, pause=0.5)


@pytest.mark.prove
async def test_a_server_killed_ten_times_loses_nothing_that_was_acknowledged(
    durable: private.MariaDB,
):
    await ordeal(durable, kills=10, pause=2)
