"""Tasks changed from outside: cancelled, retried, replayed, purged."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.tasks.errors import InvalidTask, TaskNotFound
from penstock.tasks.memory.base import MemoryBase
from penstock.tasks.memory.new_rows import restored, still_ahead
from penstock.tasks.task import OPEN, Replayed, Status, Task, TaskId, storable

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime, timedelta


class Upkeep(MemoryBase):
    """What an operator does."""

    async def cancel(self, task_id: TaskId, reason: str = "cancelled") -> bool:
        task, now = self._known(task_id), self._now()
        if task.status not in OPEN:
            return False
        self._table.change(
            task_id,
            status=Status.DEAD,
            lease_owner=None,
            lease_until=None,
            last_error=storable(reason),
            last_error_at=now,
            updated_at=now,
        )
        return True

    async def retry(self, task_id: TaskId) -> bool:
        task, now = self._known(task_id), self._now()
        if task.status in (Status.LEASED, Status.DONE):
            return False
        self._dlq = {n: each for n, each in self._dlq.items() if each.task_id != task_id}
        self._table.change(
            task_id,
            status=Status.QUEUED,
            attempts=0,
            available_at=task.created_at,
            expires_at=still_ahead(task.expires_at, now),
            updated_at=now,
        )
        self._came.set()
        return True

    def _known(self, task_id: TaskId) -> Task:
        if task_id not in self._table.tasks:
            raise TaskNotFound(f"there is no task {task_id}")
        return self._table.tasks[task_id]

    async def replay_dlq(
        self,
        *,
        limit: int | None = None,
        delay: timedelta | None = None,
        available_at: datetime | None = None,
        reset_attempts: bool = True,
        topic: str | None = None,
        tenant_id: str | None = None,
    ) -> Replayed:
        now = self._now()
        until = available_at or (now + delay if delay else None)
        replayed = 0
        for letter in self._dead(topic, tenant_id):
            if limit is not None and replayed == limit:
                break
            task = self._table.tasks.get(letter.task_id)
            if task is None:
                self._table.tasks[letter.task_id] = restored(letter, now)
            elif task.status is not Status.DEAD:
                continue
            self._replay(letter.task_id, now, until, reset_attempts=reset_attempts)
            del self._dlq[letter.number]
            replayed += 1
        self._came.set()
        return Replayed(replayed, len(self._dead(topic, tenant_id)))

    def _replay(
        self, task_id: TaskId, now: datetime, until: datetime | None, *, reset_attempts: bool
    ) -> None:
        task = self._table.tasks[task_id]
        kept = max(task.max_attempts, task.attempts + 1)
        self._table.change(
            task_id,
            status=Status.QUEUED,
            attempts=0 if reset_attempts else task.attempts,
            max_attempts=task.max_attempts if reset_attempts else kept,
            available_at=max(until, task.created_at) if until else task.created_at,
            expires_at=still_ahead(task.expires_at, now),
            updated_at=now,
        )

    async def purge(
        self, older_than: timedelta, *, statuses: Sequence[Status] = (Status.DONE,)
    ) -> int:
        if any(status in OPEN for status in statuses):
            raise InvalidTask("only done, dead and expired tasks can be purged; cancel the others")
        limit = self._now() - older_than
        old = [
            task.id
            for task in self._table.tasks.values()
            if task.status in statuses and task.dedupe_key is None and task.updated_at <= limit
        ]
        for task_id in old:
            del self._table.tasks[task_id]
        return len(old)
