"""Owner, attempt and time fence everything that is said about a reserved task."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from penstock.tasks.errors import LeaseLost, TaskNotFound
from penstock.tasks.task import Lease, NewTask, Status, TaskId

if TYPE_CHECKING:
    from penstock.tasks.store import TaskStore

MINUTE = timedelta(minutes=1)
Act = Callable[["TaskStore", Lease], Awaitable[Any]]

ACTS: dict[str, Act] = {
    "ack": lambda store, lease: store.ack(lease),
    "ack with a result": lambda store, lease: store.ack(lease, result=b"r"),
    "release": lambda store, lease: store.release(lease),
    "extend": lambda store, lease: store.extend_lease(lease),
    "bury": lambda store, lease: store.move_to_dlq(lease, "no use"),
}
acts = pytest.mark.parametrize("act", ACTS.values(), ids=list(ACTS))


async def leased(store: TaskStore, **fields: Any) -> Lease:
    await store.insert(NewTask("mail", **fields))
    [task] = await store.reserve("w", topics=["mail"], lease=MINUTE)
    return task.lease


@acts
async def test_the_holder_may(store: TaskStore, act: Act):
    await act(store, await leased(store))


@acts
async def test_another_owner_may_not(store: TaskStore, act: Act):
    lease = await leased(store)
    before = await store.get(lease.task_id)
    with pytest.raises(LeaseLost):
        await act(store, replace(lease, owner="somebody else"))
    assert await store.get(lease.task_id) == before
    assert await store.list_dlq() == []


@acts
async def test_the_same_owner_may_not_in_an_earlier_attempt(store: TaskStore, act: Act):
    stale = await leased(store)
    await store.release(stale)
    [again] = await store.reserve("w", topics=["mail"], lease=MINUTE)
    with pytest.raises(LeaseLost):
        await act(store, stale)
    assert await store.get(again.id) == again


@acts
async def test_nobody_may_when_the_lease_has_ended(store: TaskStore, act: Act):
    lease = await leased(store)
    store.shift_clock(MINUTE)
    with pytest.raises(LeaseLost):
        await act(store, lease)
    [task] = await store.reserve("b", topics=["mail"])
    assert task.id == lease.task_id


@acts
async def test_nobody_may_twice(store: TaskStore, act: Act):
    lease = await leased(store)
    await store.ack(lease)
    with pytest.raises(LeaseLost):
        await act(store, lease)
    assert (await store.stats()).done == 1


@acts
async def test_nobody_may_with_a_task_that_is_not_there(store: TaskStore, act: Act):
    lease = await leased(store)
    with pytest.raises(LeaseLost):
        await act(store, replace(lease, task_id=TaskId("nothing")))


async def test_a_release_that_does_not_count_fences_as_well(store: TaskStore):
    stale = await leased(store)
    await store.release(stale, counts=False)
    [again] = await store.reserve("w", topics=["mail"], lease=MINUTE)
    with pytest.raises(LeaseLost):
        await store.ack(stale)
    await store.ack(again.lease)


async def test_an_acked_task_is_done_and_has_no_lease(store: TaskStore):
    lease = await leased(store)
    await store.ack(lease)
    task = await store.get(lease.task_id)
    assert task is not None
    assert (task.status, task.lease_owner, task.lease_until) == (Status.DONE, None, None)


async def test_an_extended_lease_lasts_longer(store: TaskStore):
    lease = await leased(store)
    store.shift_clock(MINUTE / 2)
    longer = await store.extend_lease(lease, MINUTE)
    assert longer.until > lease.until
    store.shift_clock(MINUTE * 3 / 4)
    assert await store.reserve("b", topics=["mail"]) == []
    await store.ack(longer)


async def test_an_extension_never_shortens_a_lease(store: TaskStore):
    lease = await leased(store)
    same = await store.extend_lease(lease, timedelta(seconds=1))
    assert same.until == lease.until


async def test_a_released_task_waits_for_its_delay_and_keeps_the_reason(store: TaskStore):
    lease = await leased(store)
    assert await store.release(lease, delay=MINUTE, reason="no paper") is Status.QUEUED
    assert await store.reserve("b", topics=["mail"]) == []
    store.shift_clock(MINUTE)
    [task] = await store.reserve("b", topics=["mail"])
    assert (task.attempts, task.last_error) == (2, "no paper")


async def test_a_release_without_delay_is_ready_at_once(store: TaskStore):
    await store.release(await leased(store))
    assert len(await store.reserve("b", topics=["mail"])) == 1


async def test_a_release_after_the_last_attempt_goes_to_the_dead_letters(store: TaskStore):
    lease = await leased(store, max_attempts=1, payload=b"p", meta={"m": 1}, tenant_id="acme")
    assert await store.release(lease, reason="no paper") is Status.DEAD
    assert await store.reserve("b", topics=["mail"]) == []
    [dead] = await store.list_dlq()
    assert (dead.task_id, dead.topic, dead.tenant_id, dead.payload, dead.meta, dead.reason) == (
        lease.task_id,
        "mail",
        "acme",
        b"p",
        {"m": 1},
        "no paper",
    )


async def test_a_release_that_does_not_count_allows_one_more_attempt(store: TaskStore):
    lease = await leased(store, max_attempts=1)
    assert await store.release(lease, reason="shutdown", counts=False) is Status.QUEUED
    [again] = await store.reserve("b", topics=["mail"])
    assert await store.release(again.lease) is Status.DEAD


async def test_a_buried_task_is_dead_with_its_reason(store: TaskStore):
    lease = await leased(store)
    await store.move_to_dlq(lease, "broken \0 beyond \ud800 repair")
    task = await store.get(lease.task_id)
    [dead] = await store.list_dlq()
    assert task is not None
    assert (task.status, task.last_error) == (Status.DEAD, dead.reason)
    assert dead.reason.startswith("broken")


async def test_a_result_is_kept_on_request(store: TaskStore):
    lease = await leased(store)
    assert await store.result(lease.task_id) is None
    await store.ack(lease, result=b"\x00answer\xff")
    assert await store.result(lease.task_id) == b"\x00answer\xff"


async def test_a_cancelled_task_is_not_delivered(store: TaskStore):
    task_id = await store.insert(NewTask("mail"))
    assert await store.cancel(task_id, "not wanted")
    assert await store.reserve("w") == []
    task = await store.get(task_id)
    assert task is not None
    assert (task.status, task.last_error) == (Status.DEAD, "not wanted")
    assert await store.list_dlq() == []
    assert not await store.cancel(task_id)


async def test_a_cancelled_task_takes_the_lease_from_its_worker(store: TaskStore):
    lease = await leased(store)
    assert await store.cancel(lease.task_id)
    with pytest.raises(LeaseLost):
        await store.extend_lease(lease)
    with pytest.raises(LeaseLost):
        await store.ack(lease)


async def test_what_is_not_there_can_not_be_cancelled_or_retried(store: TaskStore):
    with pytest.raises(TaskNotFound):
        await store.cancel(TaskId("nothing"))
    with pytest.raises(TaskNotFound):
        await store.retry(TaskId("nothing"))
    assert await store.get(TaskId("nothing")) is None


async def test_a_dead_task_can_be_retried_and_leaves_the_dead_letters(store: TaskStore):
    lease = await leased(store, max_attempts=1)
    await store.release(lease)
    assert await store.retry(lease.task_id)
    assert await store.list_dlq() == []
    [task] = await store.reserve("w")
    assert task.attempts == 1


async def test_a_waiting_task_can_be_retried_now(store: TaskStore):
    task_id = await store.insert(NewTask("mail", delay=MINUTE))
    assert await store.retry(task_id)
    assert len(await store.reserve("w")) == 1


async def test_an_expired_task_can_be_retried(store: TaskStore):
    task_id = await store.insert(NewTask("mail", expires_in=MINUTE))
    store.shift_clock(MINUTE)
    await store.reserve("w")
    assert await store.retry(task_id)
    assert len(await store.reserve("w")) == 1


async def test_a_leased_or_done_task_can_not_be_retried(store: TaskStore):
    lease = await leased(store)
    assert not await store.retry(lease.task_id)
    await store.ack(lease)
    assert not await store.retry(lease.task_id)
