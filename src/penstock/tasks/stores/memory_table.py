"""The rows of the store in memory, how they are made, and what a reserve asks of them."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from penstock.tasks.errors import TaskExpired
from penstock.tasks.stores.store_rules import Candidate, Locked
from penstock.tasks.task import DeadTask, NewTask, Status, Task, TaskId

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


class Table:
    """Tasks by id.  A change replaces a row whole, so what was handed out never changes."""

    def __init__(self) -> None:
        self.tasks: dict[TaskId, Task] = {}

    def change(self, task_id: TaskId, **values: Any) -> Task:
        self.tasks[task_id] = replace(self.tasks[task_id], **values)
        return self.tasks[task_id]

    def with_key(self, tenant_id: str, dedupe_key: str | None) -> Task | None:
        if dedupe_key is None:
            return None
        for task in self.tasks.values():
            if (task.tenant_id, task.dedupe_key) == (tenant_id, dedupe_key):
                return task
        return None

    def matching(self, topic: str | None, tenant_id: str | None) -> Iterator[Task]:
        for task in self.tasks.values():
            if topic in (None, task.topic) and tenant_id in (None, task.tenant_id):
                yield task

    def locked(self) -> Iterator[Locked]:
        for task in self.tasks.values():
            yield Locked(
                id=task.id,
                status=task.status,
                attempts=task.attempts,
                max_attempts=task.max_attempts,
                available_at=task.available_at,
                lease_owner=task.lease_owner,
                lease_until=task.lease_until,
                expires_at=task.expires_at,
                created_at=task.created_at,
                updated_at=task.updated_at,
            )


class MemoryReader:
    """Answers the questions about candidates from a table."""

    def __init__(self, table: Table, now: datetime) -> None:
        self._table = table
        self._now = now

    def _ready(self, topics: Sequence[str], tenant_id: str | None) -> list[Task]:
        found = [
            task
            for task in self._table.tasks.values()
            if task.status is Status.QUEUED
            and task.available_at <= task.created_at
            and (task.expires_at is None or task.expires_at > self._now)
            and task.attempts < task.max_attempts
            and task.topic in topics
            and tenant_id in (None, task.tenant_id)
        ]
        return sorted(found, key=lambda task: (-task.priority, task.created_at, task.id))

    async def topics(self) -> list[str]:
        return sorted({task.topic for task in self._table.tasks.values()})

    async def tenant_after(self, topics: Sequence[str], tenant_id: str | None) -> str | None:
        names = {task.tenant_id for task in self._ready(topics, None)}
        return min((name for name in names if name > (tenant_id or "")), default=None)

    async def levels(self, topics: Sequence[str], tenant_id: str | None) -> list[int]:
        return sorted({task.priority for task in self._ready(topics, tenant_id)})

    async def heads(
        self, topics: Sequence[str], tenant_id: str | None, priority: int | None, limit: int
    ) -> list[Candidate]:
        found: list[Candidate] = []
        for topic in topics:
            ready = [
                task
                for task in self._ready([topic], tenant_id)
                if priority in (None, task.priority)
            ]
            found += [
                Candidate(task.id, task.topic, task.tenant_id, task.priority, task.created_at)
                for task in ready[:limit]
            ]
        return found


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
