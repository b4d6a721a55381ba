"""A dedupe key keeps a second task out: for ever, while the first is open, or for a time."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from penstock.tasks.errors import DuplicateTask
from penstock.tasks.task import Dedupe, NewTask, TaskId

if TYPE_CHECKING:
    from penstock.tasks.store import TaskStore
    from penstock.tasks.task import Deduping

HOUR = timedelta(hours=1)


def keyed(dedupe: Deduping, tenant_id: str = "acme", **more: object) -> NewTask:
    return NewTask("mail", tenant_id=tenant_id, dedupe_key="k", dedupe=dedupe, **more)  # type: ignore[arg-type]


async def finish(store: TaskStore) -> None:
    [task] = await store.reserve("w")
    await store.ack(task.lease)


async def test_a_duplicate_is_an_error_with_the_first_tasks_id(store: TaskStore):
    first = await store.insert(keyed(Dedupe.FOREVER))
    with pytest.raises(DuplicateTask) as caught:
        await store.insert(keyed(Dedupe.FOREVER))
    assert (caught.value.task_id, caught.value.tenant_id, caught.value.dedupe_key) == (
        first,
        "acme",
        "k",
    )
    assert (await store.stats()).total == 1


async def test_the_same_key_of_another_tenant_is_another_key(store: TaskStore):
    await store.insert(keyed(Dedupe.FOREVER))
    await store.insert(keyed(Dedupe.FOREVER, tenant_id="other"))


async def test_no_key_is_never_a_duplicate(store: TaskStore):
    await store.insert_many([NewTask("mail"), NewTask("mail")])


async def test_for_ever_outlives_the_first_task(store: TaskStore):
    first = await store.insert(keyed(Dedupe.FOREVER))
    await finish(store)
    store.shift_clock(timedelta(days=4000))
    with pytest.raises(DuplicateTask) as caught:
        await store.insert(keyed(Dedupe.FOREVER))
    assert caught.value.task_id == first


async def test_while_open_ends_when_the_first_task_is_done(store: TaskStore):
    await store.insert(keyed(Dedupe.WHILE_OPEN))
    with pytest.raises(DuplicateTask):
        await store.insert(keyed(Dedupe.WHILE_OPEN))
    [task] = await store.reserve("w")
    with pytest.raises(DuplicateTask):
        await store.insert(keyed(Dedupe.WHILE_OPEN))
    await store.ack(task.lease)
    await store.insert(keyed(Dedupe.WHILE_OPEN))
    with pytest.raises(DuplicateTask):
        await store.insert(keyed(Dedupe.WHILE_OPEN))


async def test_while_open_ends_when_the_first_task_is_dead(store: TaskStore):
    first = await store.insert(keyed(Dedupe.WHILE_OPEN))
    await store.cancel(first)
    assert await store.insert(keyed(Dedupe.WHILE_OPEN)) != first


async def test_while_open_ends_when_the_first_task_has_expired(store: TaskStore):
    await store.insert(keyed(Dedupe.WHILE_OPEN, expires_in=HOUR))
    store.shift_clock(2 * HOUR)
    await store.insert(keyed(Dedupe.WHILE_OPEN))
    [task] = await store.reserve("w", limit=10)
    assert task.expires_at is None


async def test_a_time_to_live_ends_by_the_stores_clock(store: TaskStore):
    first = await store.insert(keyed(HOUR))
    await finish(store)
    with pytest.raises(DuplicateTask) as caught:
        await store.insert(keyed(HOUR))
    assert caught.value.task_id == first
    store.shift_clock(HOUR)
    second = await store.insert(keyed(HOUR))
    with pytest.raises(DuplicateTask) as caught:
        await store.insert(keyed(HOUR))
    assert caught.value.task_id == second


async def test_the_task_that_gave_its_key_away_goes_on_without_it(store: TaskStore):
    first = await store.insert(keyed(HOUR))
    store.shift_clock(HOUR)
    second = await store.insert(keyed(HOUR))
    taken = await store.reserve("w", limit=10)
    assert {task.id: task.dedupe_key for task in taken} == {first: None, second: "k"}


async def test_an_id_that_is_taken_is_told_before_a_key_that_is_taken(store: TaskStore):
    await store.insert(NewTask("mail", dedupe_key="k", tenant_id="acme", id=TaskId("one")))
    with pytest.raises(DuplicateTask) as caught:
        await store.insert(keyed(Dedupe.FOREVER, id=TaskId("one")))
    assert caught.value.task_id == "one"
