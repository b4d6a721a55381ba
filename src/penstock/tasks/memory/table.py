"""The rows of the in-memory store, and the questions that a reserve asks of them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from penstock.tasks.choosing import Candidate
from penstock.tasks.chores import Locked
from penstock.tasks.task import Status, Task, TaskId

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime


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
    """Answers the questions of `choosing` from a table."""

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
