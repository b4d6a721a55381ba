"""How tasks come into the store in memory."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from penstock.errors import UnusableConnection
from penstock.tasks.deduping import Holder, keeps_out
from penstock.tasks.errors import DuplicateTask
from penstock.tasks.memory.base import MemoryBase
from penstock.tasks.memory.new_rows import new_row
from penstock.tasks.task import NewTask, TaskId

if TYPE_CHECKING:
    from collections.abc import Sequence

_MICROSECOND = timedelta(microseconds=1)


class Inserts(MemoryBase):
    """Insert: all of a batch or none."""

    async def insert(self, task: NewTask, *, connection: Any = None) -> TaskId:
        [task_id] = await self.insert_many([task], connection=connection)
        return task_id

    async def insert_many(
        self, tasks: Sequence[NewTask], *, skip_duplicates: bool = False, connection: Any = None
    ) -> list[TaskId]:
        if connection is not None:
            raise UnusableConnection("the store in memory takes part in no transaction")
        async with self._lock:
            before = dict(self._table.tasks)
            try:
                found = self._insert(tasks, skip_duplicates=skip_duplicates)
            except BaseException:
                self._table.tasks = before
                raise
        self._came.set()
        return found

    def _insert(self, tasks: Sequence[NewTask], *, skip_duplicates: bool) -> list[TaskId]:
        now, found = self._now(), []
        for number, task in enumerate(tasks):
            created_at = now + number * _MICROSECOND
            try:
                self._make_room(task, now)
            except DuplicateTask as duplicate:
                if not skip_duplicates:
                    raise
                found.append(TaskId(duplicate.task_id))
                continue
            self._table.tasks[task.id] = new_row(task, created_at)
            found.append(task.id)
        return found

    def _make_room(self, task: NewTask, now: datetime) -> None:
        if task.id in self._table.tasks:
            raise DuplicateTask(task.id, tenant_id=task.tenant_id, dedupe_key=None)
        held = self._table.with_key(task.tenant_id, task.dedupe_key)
        if held is None:
            return
        holder = Holder(held.id, held.status, held.expires_at, held.created_at)
        if keeps_out(holder, task.dedupe, now):
            raise DuplicateTask(held.id, tenant_id=task.tenant_id, dedupe_key=task.dedupe_key)
        self._table.change(held.id, dedupe_key=None)
