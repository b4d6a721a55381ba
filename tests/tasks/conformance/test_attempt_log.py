"""The attempt log: on request, and never in the way."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from penstock.tasks.task import NewTask

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from penstock.tasks.store import TaskStore
    from penstock.tasks.task import AttemptLogFailure
    from tests.tasks.backends import Place

MINUTE = timedelta(minutes=1)


async def test_the_log_is_off_unless_asked_for(store: TaskStore):
    task_id = await store.insert(NewTask("mail"))
    [task] = await store.reserve("w")
    await store.ack(task.lease)
    assert await store.attempts(task_id) == []


async def test_every_attempt_is_logged_with_its_end(
    open_store: Callable[..., Awaitable[TaskStore]],
):
    store = await open_store(attempt_log=True)
    task_id = await store.insert(NewTask("mail"))
    [task] = await store.reserve("w")
    await store.release(task.lease, reason="no paper")
    await store.reserve("w", lease=MINUTE)
    store.shift_clock(MINUTE)
    [task] = await store.reserve("x")
    await store.ack(task.lease)
    log = await store.attempts(task_id)
    assert [(each.attempt_no, each.success, each.reason) for each in log] == [
        (1, False, "no paper"),
        (2, False, "the lease of w ended in attempt 2"),
        (3, True, None),
    ]
    assert all(each.finished_at and each.started_at <= each.finished_at for each in log)


@pytest.mark.backends("pg", "mariadb")
async def test_a_log_that_fails_does_not_hold_up_the_ack(
    place: Place, open_store: Callable[..., Awaitable[TaskStore]]
):
    failures: list[AttemptLogFailure] = []
    store = await open_store(attempt_log=True, attempt_log_hook=failures.append)
    place.backend.run(place, "drop table mq_task_attempts")  # type: ignore[attr-defined]
    task_id = await store.insert(NewTask("mail"))
    [task] = await store.reserve("w")
    await store.ack(task.lease)
    assert (await store.stats()).done == 1
    assert [(each.task_id, each.attempt_no) for each in failures] == [(task_id, 1)]
    assert "mq_task_attempts" in str(failures[0].error)


@pytest.mark.backends("pg", "mariadb")
async def test_a_log_that_hangs_does_not_hold_up_the_ack(
    place: Place, open_store: Callable[..., Awaitable[TaskStore]]
):
    failures: list[AttemptLogFailure] = []
    store = await open_store(
        attempt_log=True,
        attempt_log_hook=failures.append,
        attempt_log_timeout=timedelta(milliseconds=100),
    )
    await store.insert(NewTask("mail"))
    [task] = await store.reserve("w")
    with place.backend.blocking(place, "mq_task_attempts"):  # type: ignore[attr-defined]
        await store.ack(task.lease)
    assert (await store.stats()).done == 1
    assert [type(each.error) for each in failures] == [TimeoutError]


async def test_a_hook_that_fails_does_not_reach_the_ack(
    place: Place, open_store: Callable[..., Awaitable[TaskStore]], monkeypatch: pytest.MonkeyPatch
):
    told: list[AttemptLogFailure] = []

    def fail(failure: AttemptLogFailure) -> None:
        told.append(failure)
        raise ValueError("the hook is broken as well")

    store = await open_store(attempt_log=True, attempt_log_hook=fail)
    if place.is_sql:
        place.backend.run(place, "drop table mq_task_attempts")  # type: ignore[attr-defined]
    else:
        # Memory does not fail by itself.
        monkeypatch.setattr(store, "_attempts", None)
    await store.insert(NewTask("mail"))
    [task] = await store.reserve("w")
    await store.ack(task.lease)
    assert (await store.stats()).done == 1
    assert len(told) == 1
