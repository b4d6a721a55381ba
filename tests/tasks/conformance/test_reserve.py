"""Who gets which task, in what order, and when."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from penstock.tasks.errors import InvalidTask
from penstock.tasks.options import Policy
from penstock.tasks.task import NewTask, Priority, Status

if TYPE_CHECKING:
    from penstock.tasks.store import TaskStore

MINUTE = timedelta(minutes=1)


async def test_higher_priority_goes_first_and_then_the_older(store: TaskStore):
    priorities = [20, 0, 40, 20, -5, 40, 30, 10, 1000]
    ids = await store.insert_many([NewTask("mail", priority=each) for each in priorities])
    taken = await store.reserve("w", topics=["mail"], limit=20)
    order = sorted(range(len(ids)), key=lambda index: (-priorities[index], index))
    assert [task.id for task in taken] == [ids[index] for index in order]


async def test_a_high_priority_behind_a_long_backlog_goes_first(store: TaskStore):
    await store.insert_many([NewTask("mail") for _ in range(150)])
    urgent = await store.insert(NewTask("mail", priority=Priority.HIGH))
    for policy in (Policy(), Policy(fair=True)):
        [task] = await store.reserve("w", topics=["mail"], policy=policy)
        assert task.id == urgent
        await store.release(task.lease, counts=False)


async def test_the_rows_come_back_in_claim_order_from_several_topics(store: TaskStore):
    for topic, priority in (("a", 10), ("b", 20), ("a", 30), ("c", 40), ("b", 10), ("c", 10)):
        await store.insert(NewTask(topic, priority=priority))
    taken = await store.reserve("w", topics=["b", "a", "c"], limit=5)
    assert [(task.topic, task.priority) for task in taken] == [
        ("c", 40),
        ("a", 30),
        ("b", 20),
        ("a", 10),
        ("b", 10),
    ]


async def test_a_limit_is_kept_and_the_next_reserve_gets_the_next_rows(store: TaskStore):
    ids = await store.insert_many([NewTask("mail") for _ in range(5)])
    first = await store.reserve("a", topics=["mail"], limit=2)
    second = await store.reserve("b", topics=["mail"], limit=2)
    third = await store.reserve("c", topics=["mail"], limit=2)
    assert [task.id for task in (*first, *second, *third)] == ids
    assert await store.reserve("d", topics=["mail"], limit=2) == []


async def test_only_the_wanted_topics_are_reserved(store: TaskStore):
    await store.insert_many([NewTask("mail"), NewTask("print")])
    assert [task.topic for task in await store.reserve("w", topics=["print"], limit=9)] == ["print"]
    assert await store.reserve("w", topics=[], limit=9) == []
    assert await store.reserve("w", topics=["fax"], limit=9) == []


async def test_without_topics_all_of_them_are_reserved(store: TaskStore):
    await store.insert_many([NewTask(topic) for topic in ("mail", "print", "fax", "mail")])
    taken = await store.reserve("w", limit=9)
    assert [task.topic for task in taken] == ["mail", "print", "fax", "mail"]


async def test_only_the_wanted_tenants_tasks_are_reserved(store: TaskStore):
    await store.insert_many([NewTask("mail", tenant_id=each) for each in ("a", "b", "a")])
    taken = await store.reserve("w", topics=["mail"], tenant_id="a", limit=9)
    assert [task.tenant_id for task in taken] == ["a", "a"]
    [other] = await store.reserve("w", tenant_id="b", limit=9)
    assert other.tenant_id == "b"


async def test_a_reserve_counts_an_attempt_and_names_the_owner(store: TaskStore):
    await store.insert(NewTask("mail"))
    before = await store.now()
    [task] = await store.reserve("worker-1", topics=["mail"], lease=MINUTE)
    assert (task.status, task.attempts, task.lease_owner) == (Status.LEASED, 1, "worker-1")
    assert task.lease_until is not None
    assert before + MINUTE <= task.lease_until <= await store.now() + MINUTE
    stored = await store.get(task.id)
    assert stored == task


async def test_a_leased_task_is_nobody_elses(store: TaskStore):
    await store.insert(NewTask("mail"))
    assert len(await store.reserve("a", topics=["mail"])) == 1
    assert await store.reserve("b", topics=["mail"]) == []
    assert await store.reserve("a", topics=["mail"]) == []


async def test_a_lease_that_ended_is_reserved_by_the_next_worker(store: TaskStore):
    await store.insert(NewTask("mail"))
    [first] = await store.reserve("a", topics=["mail"], lease=MINUTE)
    store.shift_clock(MINUTE - timedelta(seconds=5))
    assert await store.reserve("b", topics=["mail"]) == []
    store.shift_clock(timedelta(seconds=5))
    [second] = await store.reserve("b", topics=["mail"])
    assert (second.id, second.attempts, second.lease_owner) == (first.id, 2, "b")
    assert second.last_error is not None
    assert "lease of a ended in attempt 1" in second.last_error


async def test_a_lease_that_ended_keeps_its_place_in_the_order(store: TaskStore):
    ids = await store.insert_many([NewTask("mail", priority=each) for each in (20, 20, 30)])
    await store.reserve("a", topics=["mail"], limit=2, lease=MINUTE)
    store.shift_clock(MINUTE)
    taken = await store.reserve("b", topics=["mail"], limit=3)
    assert [task.id for task in taken] == [ids[2], ids[0], ids[1]]


async def test_a_lease_that_ended_in_the_last_attempt_is_dead(store: TaskStore):
    task_id = await store.insert(NewTask("mail", max_attempts=2))
    for _ in range(2):
        assert len(await store.reserve("a", topics=["mail"], lease=MINUTE)) == 1
        store.shift_clock(MINUTE)
    assert await store.reserve("a", topics=["mail"]) == []
    task = await store.get(task_id)
    assert task is not None
    assert (task.status, task.attempts) == (Status.DEAD, 2)
    [dead] = await store.list_dlq()
    assert (dead.task_id, dead.reason) == (task_id, task.last_error)


async def test_a_delayed_task_waits_for_its_time(store: TaskStore):
    task_id = await store.insert(NewTask("mail", delay=MINUTE))
    assert await store.reserve("w", topics=["mail"]) == []
    store.shift_clock(MINUTE)
    [task] = await store.reserve("w", topics=["mail"])
    assert task.id == task_id


async def test_a_task_can_wait_for_a_moment(store: TaskStore):
    await store.insert(NewTask("mail", available_at=await store.now() + MINUTE))
    assert await store.reserve("w", topics=["mail"]) == []
    store.shift_clock(MINUTE)
    assert len(await store.reserve("w", topics=["mail"])) == 1


async def test_a_moment_that_has_passed_is_now(store: TaskStore):
    await store.insert(NewTask("mail", available_at=await store.now() - MINUTE))
    assert len(await store.reserve("w", topics=["mail"])) == 1


async def test_a_delayed_task_takes_its_place_by_priority_and_creation(store: TaskStore):
    late = await store.insert(NewTask("mail", delay=MINUTE))
    urgent = await store.insert(NewTask("mail", delay=MINUTE, priority=Priority.HIGH))
    plain = await store.insert(NewTask("mail"))
    store.shift_clock(MINUTE)
    taken = await store.reserve("w", topics=["mail"], limit=3)
    assert [task.id for task in taken] == [urgent, late, plain]


async def test_a_task_is_never_delivered_after_it_expired(store: TaskStore):
    task_id = await store.insert(NewTask("mail", expires_in=MINUTE))
    store.shift_clock(MINUTE)
    assert await store.reserve("w", topics=["mail"]) == []
    task = await store.get(task_id)
    assert task is not None
    assert task.status is Status.EXPIRED


async def test_a_delayed_task_expires_as_well(store: TaskStore):
    await store.insert(NewTask("mail", delay=2 * MINUTE, expires_in=MINUTE))
    store.shift_clock(3 * MINUTE)
    assert await store.reserve("w", topics=["mail"]) == []
    assert (await store.stats()).expired == 1


async def test_a_task_that_expires_while_leased_may_be_finished(store: TaskStore):
    await store.insert(NewTask("mail", expires_in=MINUTE))
    [task] = await store.reserve("w", topics=["mail"], lease=3 * MINUTE)
    store.shift_clock(2 * MINUTE)
    await store.ack(task.lease)
    assert (await store.stats()).done == 1


async def test_a_lease_that_ends_after_the_task_expired_is_not_reserved_again(store: TaskStore):
    await store.insert(NewTask("mail", expires_in=MINUTE))
    await store.reserve("w", topics=["mail"], lease=2 * MINUTE)
    store.shift_clock(3 * MINUTE)
    assert await store.reserve("w", topics=["mail"]) == []
    assert (await store.stats()).expired == 1


async def test_many_delays_that_end_at_once_are_all_delivered(store: TaskStore):
    await store.insert_many([NewTask("mail", delay=MINUTE) for _ in range(450)])
    store.shift_clock(MINUTE)
    taken = [task.id for _ in range(3) for task in await store.reserve("w", limit=200)]
    assert len(set(taken)) == 450


async def test_nothing_is_reserved_for_a_limit_of_nothing(store: TaskStore):
    await store.insert(NewTask("mail"))
    assert await store.reserve("w", topics=["mail"], limit=0) == []


async def test_an_owner_that_does_not_fit_is_refused(store: TaskStore):
    with pytest.raises(InvalidTask):
        await store.reserve("x" * 65)
    with pytest.raises(InvalidTask):
        await store.reserve("w", lease=timedelta(0))
