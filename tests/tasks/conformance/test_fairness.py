"""Turns, weights, caps and ageing."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from penstock.tasks.errors import InvalidTask
from penstock.tasks.options import Policy
from penstock.tasks.task import NewTask

if TYPE_CHECKING:
    from penstock.tasks.store import TaskStore
    from penstock.tasks.task import Task

MINUTE = timedelta(minutes=1)
FAIR = Policy(fair=True)


async def fill(store: TaskStore, **counts: int) -> None:
    for tenant_id, count in counts.items():
        await store.insert_many([NewTask("mail", tenant_id=tenant_id) for _ in range(count)])


def tenants(taken: list[Task]) -> str:
    return "".join(task.tenant_id for task in taken)


async def test_tenants_take_turns(store: TaskStore):
    await fill(store, a=20, b=3, c=3)
    taken = await store.reserve("w", topics=["mail"], limit=9, policy=FAIR)
    assert tenants(taken) == "abcabcabc"


async def test_turns_go_on_from_one_reserve_to_the_next(store: TaskStore):
    await fill(store, a=9, b=9, c=9)
    taken = [
        task
        for limit in (1, 1, 2, 1, 4)
        for task in await store.reserve("w", topics=["mail"], limit=limit, policy=FAIR)
    ]
    assert tenants(taken) == "abcabcabc"


async def test_a_tenant_alone_gets_everything(store: TaskStore):
    await fill(store, a=30)
    assert tenants(await store.reserve("w", limit=40, policy=FAIR)) == "a" * 30


async def test_a_tenant_that_comes_later_gets_its_turn_at_once(store: TaskStore):
    await fill(store, m=50)
    await store.reserve("w", limit=5, policy=FAIR)
    await fill(store, z=1)
    assert "z" in tenants(await store.reserve("w", limit=2, policy=FAIR))


async def test_weights_give_a_tenant_more_of_each_round(store: TaskStore):
    await fill(store, a=30, b=30)
    policy = Policy(fair=True, weights={"b": 3})
    taken = [
        task
        for limit in (3, 1, 5, 7)
        for task in await store.reserve("w", topics=["mail"], limit=limit, policy=policy)
    ]
    assert tenants(taken) == "abbb" * 4


async def test_within_a_turn_the_higher_priority_goes_first(store: TaskStore):
    await store.insert_many(
        [NewTask("mail", tenant_id=each, priority=p) for p in (10, 40) for each in "ab"]
    )
    taken = await store.reserve("w", limit=4, policy=FAIR)
    assert [(task.tenant_id, task.priority) for task in taken] == [
        ("a", 40),
        ("b", 40),
        ("a", 10),
        ("b", 10),
    ]


async def test_turns_go_over_several_topics(store: TaskStore):
    for topic in ("mail", "print"):
        for tenant_id in "ab":
            await store.insert_many([NewTask(topic, tenant_id=tenant_id) for _ in range(2)])
    taken = await store.reserve("w", topics=["print", "mail"], limit=8, policy=FAIR)
    assert tenants(taken) == "abababab"


async def test_a_tenant_runs_no_more_than_its_cap(store: TaskStore):
    await fill(store, a=10, b=1)
    policy = Policy(running_per_tenant=2)
    first = await store.reserve("v", topics=["mail"], limit=9, policy=policy)
    assert Counter(tenants(first)) == {"a": 2, "b": 1}
    assert await store.reserve("w", topics=["mail"], limit=9, policy=policy) == []
    await store.ack(first[0].lease)
    assert tenants(await store.reserve("w", topics=["mail"], limit=9, policy=policy)) == "a"


async def test_a_cap_counts_leases_in_all_topics(store: TaskStore):
    await store.insert_many([NewTask(topic, tenant_id="a") for topic in ("mail", "print")])
    policy = Policy(running_per_tenant=1)
    assert len(await store.reserve("w", topics=["mail"], limit=9, policy=policy)) == 1
    assert await store.reserve("w", topics=["print"], limit=9, policy=policy) == []


async def test_a_topic_runs_no_more_than_its_cap(store: TaskStore):
    await store.insert_many([NewTask("mail") for _ in range(5)] + [NewTask("print")])
    policy = Policy(running_per_topic=2)
    taken = await store.reserve("w", limit=9, policy=policy)
    assert Counter(task.topic for task in taken) == {"mail": 2, "print": 1}
    assert await store.reserve("w", limit=9, policy=policy) == []


async def test_a_lease_that_ended_makes_room_under_a_cap(store: TaskStore):
    await fill(store, a=3)
    policy = Policy(running_per_tenant=1)
    await store.reserve("w", topics=["mail"], limit=9, lease=MINUTE, policy=policy)
    store.shift_clock(MINUTE)
    assert len(await store.reserve("w", topics=["mail"], limit=9, policy=policy)) == 1


async def test_a_full_tenants_backlog_does_not_hide_the_others(store: TaskStore):
    await fill(store, a=300, b=1)
    policy = Policy(running_per_tenant=2)
    taken = await store.reserve("w", topics=["mail"], limit=5, policy=policy)
    assert Counter(tenants(taken)) == {"a": 2, "b": 1}


async def test_turns_and_caps_work_together(store: TaskStore):
    await fill(store, a=9, b=9, c=1)
    policy = Policy(fair=True, running_per_tenant=2)
    assert tenants(await store.reserve("w", topics=["mail"], limit=9, policy=policy)) == "abcab"


async def test_a_low_priority_starves_without_ageing(store: TaskStore):
    low = await store.insert(NewTask("mail", priority=0))
    store.shift_clock(timedelta(hours=1))
    await store.insert(NewTask("mail", priority=20))
    [task] = await store.reserve("w", topics=["mail"])
    assert task.id != low


async def test_ageing_raises_what_has_waited(store: TaskStore):
    policy = Policy(ageing=MINUTE)
    low = await store.insert(NewTask("mail", priority=0))
    store.shift_clock(19 * MINUTE)
    high = await store.insert(NewTask("mail", priority=20))
    [first] = await store.reserve("w", topics=["mail"], policy=policy)
    assert first.id == high
    await store.ack(first.lease)
    store.shift_clock(2 * MINUTE)
    await store.insert(NewTask("mail", priority=20))
    [second] = await store.reserve("w", topics=["mail"], policy=policy)
    assert second.id == low


async def test_ageing_keeps_the_order_of_equals(store: TaskStore):
    ids = await store.insert_many([NewTask("mail", priority=p) for p in (10, 30, 10, 30)])
    taken = await store.reserve("w", limit=4, policy=Policy(ageing=MINUTE))
    assert [task.id for task in taken] == [ids[1], ids[3], ids[0], ids[2]]


@pytest.mark.parametrize(
    "fields",
    [
        {"running_per_tenant": 0},
        {"running_per_topic": 0},
        {"weights": {"a": 0}},
        {"ageing": timedelta(0)},
    ],
    ids=str,
)
def test_a_policy_that_makes_no_sense_is_refused(fields: dict[str, object]):
    with pytest.raises(InvalidTask):
        Policy(**fields)  # type: ignore[arg-type]
