"""Replaying dead letters, counting, and clearing up."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from penstock.tasks.errors import InvalidTask
from penstock.tasks.task import NewTask, Replayed, Stats, Status, TaskId

if TYPE_CHECKING:
    from penstock.tasks.store import TaskStore

MINUTE = timedelta(minutes=1)


async def bury(store: TaskStore, *tasks: NewTask) -> list[TaskId]:
    ids = await store.insert_many(tasks)
    for task in await store.reserve("w", limit=len(tasks)):
        await store.move_to_dlq(task.lease, f"reason of {task.topic}")
    return ids


async def test_a_replay_moves_the_dead_letters_back(store: TaskStore):
    ids = await bury(store, NewTask("mail", b"one"), NewTask("mail", b"two"))
    assert await store.replay_dlq() == Replayed(2, 0)
    assert await store.list_dlq() == []
    taken = await store.reserve("w", limit=5)
    assert [(task.id, task.payload, task.attempts) for task in taken] == [
        (ids[0], b"one", 1),
        (ids[1], b"two", 1),
    ]


async def test_a_replay_takes_the_oldest_first_and_tells_how_many_are_left(store: TaskStore):
    ids = await bury(store, *(NewTask("mail") for _ in range(5)))
    assert await store.replay_dlq(limit=2) == Replayed(2, 3)
    assert [task.id for task in await store.reserve("w", limit=5)] == ids[:2]
    assert await store.replay_dlq(limit=9) == Replayed(3, 0)
    assert await store.replay_dlq() == Replayed(0, 0)


async def test_a_replay_can_keep_the_attempts_and_allows_one_more(store: TaskStore):
    await bury(store, NewTask("mail", max_attempts=1))
    assert await store.replay_dlq(reset_attempts=False) == Replayed(1, 0)
    [task] = await store.reserve("w")
    assert (task.attempts, task.max_attempts) == (2, 2)
    assert await store.release(task.lease, reason="again") is Status.DEAD


async def test_a_replay_can_be_for_later(store: TaskStore):
    await bury(store, NewTask("mail"), NewTask("print"))
    await store.replay_dlq(topic="mail", delay=MINUTE)
    await store.replay_dlq(topic="print", available_at=await store.now() + MINUTE)
    assert await store.reserve("w", limit=5) == []
    store.shift_clock(MINUTE)
    assert len(await store.reserve("w", limit=5)) == 2


async def test_a_replay_can_be_for_one_topic_or_one_tenant(store: TaskStore):
    await bury(store, NewTask("mail", tenant_id="a"), NewTask("print", tenant_id="b"))
    assert await store.replay_dlq(topic="print") == Replayed(1, 0)
    assert await store.replay_dlq(tenant_id="b") == Replayed(0, 0)
    assert [dead.topic for dead in await store.list_dlq()] == ["mail"]
    assert await store.replay_dlq(tenant_id="a") == Replayed(1, 0)


async def test_a_replay_brings_back_a_task_whose_row_was_purged(store: TaskStore):
    [task_id] = await bury(store, NewTask("mail", b"p", tenant_id="acme", meta={"m": 1}))
    assert await store.purge(timedelta(0), statuses=[Status.DEAD]) == 1
    assert await store.replay_dlq() == Replayed(1, 0)
    [task] = await store.reserve("w")
    assert (task.id, task.payload, task.tenant_id, task.meta) == (task_id, b"p", "acme", {"m": 1})


async def test_a_replayed_task_that_had_expired_is_delivered(store: TaskStore):
    await store.insert(NewTask("mail", expires_in=MINUTE))
    [task] = await store.reserve("w", lease=9 * MINUTE)
    store.shift_clock(2 * MINUTE)
    await store.move_to_dlq(task.lease, "late")
    await store.replay_dlq()
    assert len(await store.reserve("w")) == 1


async def test_many_dead_letters_are_replayed_in_one_call(store: TaskStore):
    await bury(store, *(NewTask("mail") for _ in range(450)))
    assert await store.replay_dlq() == Replayed(450, 0)
    assert (await store.stats()).queued == 450


async def test_a_dead_letter_of_a_task_that_lives_again_stays_where_it_is(store: TaskStore):
    [task_id] = await bury(store, NewTask("mail"))
    await store.replay_dlq()
    [task] = await store.reserve("w")
    await store.move_to_dlq(task.lease, "once more")
    assert [dead.task_id for dead in await store.list_dlq()] == [task_id]


async def test_stats_count_every_status(store: TaskStore):
    await store.insert(NewTask("mail", expires_in=MINUTE))
    store.shift_clock(MINUTE)
    await bury(store, NewTask("mail"))
    await store.insert_many([NewTask("mail") for _ in range(3)])
    done, _ = await store.reserve("w", limit=2)
    await store.ack(done.lease)
    assert await store.stats() == Stats(queued=1, leased=1, done=1, dead=1, expired=1)
    assert (await store.stats()).total == 5


async def test_stats_can_be_of_one_topic_or_one_tenant(store: TaskStore):
    await store.insert_many([NewTask("mail", tenant_id="a"), NewTask("print", tenant_id="b")])
    assert await store.stats(topic="mail") == Stats(queued=1)
    assert await store.stats(tenant_id="b") == Stats(queued=1)
    assert await store.stats(topic="mail", tenant_id="b") == Stats()


async def test_tasks_are_listed_newest_first(store: TaskStore):
    ids = await store.insert_many([NewTask("mail", tenant_id=each) for each in "abc"])
    assert [task.id for task in await store.list_tasks()] == ids[::-1]
    assert [task.id for task in await store.list_tasks(limit=1)] == ids[2:]
    assert [task.id for task in await store.list_tasks(tenant_id="b")] == [ids[1]]
    assert await store.list_tasks(status=Status.DONE) == []
    assert await store.list_tasks(topic="print") == []


async def test_a_purge_deletes_what_is_old_and_finished(store: TaskStore):
    await store.insert_many([NewTask("mail"), NewTask("mail", dedupe_key="k"), NewTask("mail")])
    for task in await store.reserve("w", limit=2):
        await store.ack(task.lease)
    assert await store.purge(MINUTE) == 0
    store.shift_clock(MINUTE)
    assert await store.purge(MINUTE) == 1
    left = await store.list_tasks()
    assert sorted(task.status for task in left) == [Status.DONE, Status.QUEUED]


async def test_open_tasks_can_not_be_purged(store: TaskStore):
    with pytest.raises(InvalidTask):
        await store.purge(MINUTE, statuses=[Status.QUEUED])
