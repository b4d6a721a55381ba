"""What a database can tell about its tasks."""

from __future__ import annotations

from penstock.tasks import rows
from penstock.tasks.sql_store.base import SqlBase
from penstock.tasks.task import Attempt, DeadTask, Stats, Status, Task, TaskId


class Reads(SqlBase):
    """Reads, each a single statement."""

    async def get(self, task_id: TaskId) -> Task | None:
        found = await self._read("by_ids", ids=[task_id])
        return rows.task(found[0]) if found else None

    async def result(self, task_id: TaskId) -> bytes | None:
        found = await self._read("result", id=task_id)
        return bytes(found[0][0]) if found else None

    async def list_tasks(
        self,
        *,
        status: Status | None = None,
        topic: str | None = None,
        tenant_id: str | None = None,
        limit: int = 100,
    ) -> list[Task]:
        found = await self._read(
            "list_tasks", status=status, topic=topic, tenant_id=tenant_id, limit=limit
        )
        return [rows.task(row) for row in found]

    async def list_dlq(
        self, *, topic: str | None = None, tenant_id: str | None = None, limit: int = 100
    ) -> list[DeadTask]:
        found = await self._read("list_dlq", topic=topic, tenant_id=tenant_id, limit=limit)
        return [rows.dead_task(row) for row in found]

    async def attempts(self, task_id: TaskId) -> list[Attempt]:
        return [rows.attempt(row) for row in await self._read("attempts", id=task_id)]

    async def stats(self, *, topic: str | None = None, tenant_id: str | None = None) -> Stats:
        found = await self._read("stats", topic=topic, tenant_id=tenant_id)
        return Stats(**{Status(status).value: int(count) for status, count in found})
