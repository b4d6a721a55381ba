"""Races between real sessions: nobody starves, caps hold, keys are given once."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from penstock.tasks import DuplicateTask, LeaseLost, NewTask, Policy, Stats, TaskId

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from penstock.tasks.store import TaskStore
    from tests.tasks.backends import Place

pytestmark = pytest.mark.backends("pg", "mariadb")


async def stores(open_store: Any, count: int) -> list[TaskStore]:
    return [await open_store(pool_size=2) for _ in range(count)]


async def test_workers_that_reserve_at_once_each_get_their_own(
    store: TaskStore, open_store: Callable[..., Awaitable[TaskStore]]
):
    ids = await store.insert_many([NewTask("mail") for _ in range(400)])
    taken: list[TaskId] = []

    async def work(mine: TaskStore, owner: str) -> int:
        rounds = 0
        while found := await mine.reserve(owner, topics=["mail"], limit=7):
            taken.extend(task.id for task in found)
            rounds += 1
            for task in found:
                await mine.ack(task.lease)
        return rounds

    crowd = await stores(open_store, 8)
    rounds = await asyncio.gather(*(work(each, f"w{n}") for n, each in enumerate(crowd)))
    assert sorted(taken) == sorted(ids)
    assert min(rounds) > 0
    assert await store.stats() == Stats(done=400)


async def test_rows_that_one_worker_has_locked_are_passed_over(store: TaskStore, place: Place):
    ids = await store.insert_many([NewTask("mail") for _ in range(15)])
    with locking(place) as first:
        first(ids[:5])
        second = await store.reserve("b", topics=["mail"], limit=5)
        third = await store.reserve("c", topics=["mail"], limit=5)
    assert [task.id for task in second] == ids[5:10]
    assert [task.id for task in third] == ids[10:]
    assert [task.id for task in await store.reserve("d", topics=["mail"], limit=9)] == ids[:5]


async def test_a_locked_row_does_not_hold_up_enqueuing(store: TaskStore, place: Place):
    ids = await store.insert_many([NewTask("mail") for _ in range(5)])
    with locking(place) as first:
        first(ids)
        await asyncio.wait_for(store.insert_many([NewTask("mail"), NewTask("mail")]), 4)


@pytest.mark.parametrize(
    "policy",
    [
        Policy(running_per_tenant=2),
        Policy(running_per_topic=3),
        Policy(fair=True, running_per_tenant=2, running_per_topic=5),
    ],
    ids=["tenant", "topic", "both, in turns"],
)
async def test_caps_hold_exactly_however_many_reserve(
    store: TaskStore, open_store: Callable[..., Awaitable[TaskStore]], policy: Policy
):
    tasks = [
        NewTask(topic, tenant_id=tenant)
        for topic in ("mail", "print")
        for tenant in ("a", "b", "c")
        for _ in range(10)
    ]
    await store.insert_many(tasks)
    tenants: Counter[str] = Counter()
    topics: Counter[str] = Counter()
    over: list[str] = []
    done = 0

    async def work(mine: TaskStore, owner: str) -> None:
        nonlocal done
        while done < len(tasks):
            found = await mine.reserve(owner, limit=random.randint(1, 6), policy=policy)
            for task in found:
                tenants[task.tenant_id] += 1
                topics[task.topic] += 1
            if policy.running_per_tenant and max(tenants.values()) > policy.running_per_tenant:
                over.append(f"tenants {tenants}")
            if policy.running_per_topic and max(topics.values()) > policy.running_per_topic:
                over.append(f"topics {topics}")
            for task in found:
                # Before the ack: from here on, another may be begun.
                tenants[task.tenant_id] -= 1
                topics[task.topic] -= 1
                await mine.ack(task.lease)
                done += 1

    crowd = await stores(open_store, 6)
    await asyncio.gather(*(work(each, f"w{n}") for n, each in enumerate(crowd)))
    assert over == []
    assert await store.stats() == Stats(done=len(tasks))


async def test_a_key_that_many_enqueue_at_once_is_given_once(
    store: TaskStore, open_store: Callable[..., Awaitable[TaskStore]]
):
    crowd = await stores(open_store, 8)

    async def enqueue(mine: TaskStore) -> tuple[bool, str]:
        try:
            return True, await mine.insert(NewTask("mail", dedupe_key="k"))
        except DuplicateTask as duplicate:
            return False, duplicate.task_id

    answers = await asyncio.gather(*(enqueue(each) for each in crowd for _ in range(4)))
    assert [new for new, _ in answers].count(True) == 1
    assert len({task_id for _, task_id in answers}) == 1
    assert await store.stats() == Stats(queued=1)


async def storm(store: TaskStore, crowd: list[TaskStore], rounds: int) -> None:
    """Everybody does everything with the same few tasks, in any order."""
    keys = [f"k{n}" for n in range(6)]
    new: set[str] = set()
    done: set[str] = set()

    async def trouble(mine: TaskStore, owner: str) -> None:
        for _ in range(rounds):
            batch = [NewTask("mail", tenant_id="a", dedupe_key=key) for key in keys]
            batch += [NewTask("mail", tenant_id=random.choice("ab")) for _ in range(2)]
            random.shuffle(batch)
            ids = await mine.insert_many(batch, skip_duplicates=True)
            new.update(ids)
            for task in await mine.reserve(owner, limit=6, lease=timedelta(minutes=5)):
                await finish(mine, task)
            await mine.replay_dlq(limit=3)

    async def finish(mine: TaskStore, task: Any) -> None:
        try:
            match random.randint(0, 3):
                case 0:
                    await mine.release(task.lease, reason="again")
                case 1:
                    await mine.move_to_dlq(task.lease, "dead")
                case _:
                    await mine.ack(task.lease)
                    done.add(task.id)
        except LeaseLost:
            raise AssertionError("nobody else can have it") from None

    await asyncio.gather(*(trouble(each, f"w{n}") for n, each in enumerate(crowd)))
    for _ in range(3):
        await store.replay_dlq()
        while found := await store.reserve("last", limit=50):
            for task in found:
                await store.ack(task.lease)
                done.add(task.id)
    assert done == new
    assert await store.stats() == Stats(done=len(new))
    assert await store.list_dlq() == []


async def test_a_storm_of_deadlocks_reaches_nobody(
    store: TaskStore, open_store: Callable[..., Awaitable[TaskStore]]
):
    await storm(store, await stores(open_store, 8), rounds=6)


@pytest.mark.prove
async def test_a_long_storm_of_deadlocks_reaches_nobody(
    store: TaskStore, open_store: Callable[..., Awaitable[TaskStore]]
):
    await storm(store, await stores(open_store, 8), rounds=150)


async def test_a_task_that_a_stranger_has_locked_is_waited_for(store: TaskStore, place: Place):
    one, two = sorted(await store.insert_many([NewTask("mail"), NewTask("mail")]))
    taken = {task.id: task for task in await store.reserve("w", limit=2)}
    with locking(place) as lock:
        lock([two])
        burying = asyncio.create_task(store.move_to_dlq(taken[two].lease, "no use"))
        await asyncio.sleep(0.1)
        assert not burying.done()
        await store.ack(taken[one].lease)
    await asyncio.wait_for(burying, 10)
    assert await store.stats() == Stats(done=1, dead=1)


def locking(place: Place) -> Any:
    """A session of somebody else, which locks tasks and keeps them until the end of the block."""
    return place.backend.locking(place)  # type: ignore[attr-defined]
