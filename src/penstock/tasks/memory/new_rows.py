"""Rows of tasks, made from what was enqueued or from what a dead letter knows."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from penstock.tasks.errors import TaskExpired
from penstock.tasks.task import DeadTask, NewTask, Status, Task, TaskId


def still_ahead(moment: datetime | None, now: datetime) -> datetime | None:
    return moment if moment is not None and moment > now else None


def new_row(task: NewTask, created_at: datetime) -> Task:
    expires_at = task.expires_at
    if task.expires_in is not None:
        expires_at = created_at + task.expires_in
    if expires_at is not None and expires_at <= created_at:
        raise TaskExpired(
            f"task {task.id} expires at {expires_at.isoformat()}, and the clock says "
            f"{created_at.isoformat()}: give it more time"
        )
    available_at = task.available_at or created_at + (task.delay or timedelta(0))
    return _row(
        task.id,
        task.topic,
        tenant_id=task.tenant_id,
        payload=task.payload,
        meta=task.meta,
        created_at=created_at,
        priority=int(task.priority),
        dedupe_key=task.dedupe_key,
        max_attempts=task.max_attempts,
        available_at=max(available_at.astimezone(UTC), created_at),
        expires_at=expires_at,
    )


def restored(letter: DeadTask, now: datetime) -> Task:
    """The task's own row is gone: what its dead letter knows makes a new one."""
    return _row(
        letter.task_id,
        letter.topic,
        tenant_id=letter.tenant_id,
        payload=letter.payload,
        meta=letter.meta,
        created_at=now,
    )


def _row(
    task_id: TaskId,
    topic: str,
    *,
    tenant_id: str,
    payload: bytes,
    meta: dict[str, Any] | None,
    created_at: datetime,
    priority: int = 20,
    dedupe_key: str | None = None,
    max_attempts: int = 5,
    available_at: datetime | None = None,
    expires_at: datetime | None = None,
) -> Task:
    return Task(
        id=task_id,
        topic=topic,
        tenant_id=tenant_id,
        payload=payload,
        meta=meta,
        priority=priority,
        dedupe_key=dedupe_key,
        status=Status.QUEUED,
        attempts=0,
        max_attempts=max_attempts,
        available_at=available_at or created_at,
        lease_owner=None,
        lease_until=None,
        expires_at=expires_at,
        last_error=None,
        last_error_at=None,
        created_at=created_at,
        updated_at=created_at,
    )
