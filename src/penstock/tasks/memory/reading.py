"""What the store in memory can tell about its tasks."""

from __future__ import annotations

from penstock.tasks.memory.base import MemoryBase
from penstock.tasks.task import Attempt, DeadTask, Stats, Status, Task, TaskId


class Reads(MemoryBase):
    """Reads."""

    async def get(self, task_id: TaskId) -> Task | None:
        return self._table.tasks.get(task_id)

    async def result(self, task_id: TaskId) -> bytes | None:
        return self._results.get(task_id)

    async def list_tasks(
        self,
        *,
        status: Status | None = None,
        topic: str | None = None,
        tenant_id: str | None = None,
        limit: int = 100,
    ) -> list[Task]:
        found = [
            task for task in self._table.matching(topic, tenant_id) if status in (None, task.status)
        ]
        return sorted(found, key=lambda task: (task.created_at, task.id), reverse=True)[:limit]

    async def list_dlq(
        self, *, topic: str | None = None, tenant_id: str | None = None, limit: int = 100
    ) -> list[DeadTask]:
        return self._dead(topic, tenant_id)[:limit]

    async def attempts(self, task_id: TaskId) -> list[Attempt]:
        found = [each for each in self._attempts if each.task_id == task_id]
        return sorted(found, key=lambda each: each.attempt_no)

    async def stats(self, *, topic: str | None = None, tenant_id: str | None = None) -> Stats:
        counts = {status.value: 0 for status in Status}
        for task in self._table.matching(topic, tenant_id):
            counts[task.status.value] += 1
        return Stats(**counts)
