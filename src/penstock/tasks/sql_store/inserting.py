"""How tasks come into a database."""

from __future__ import annotations

from abc import abstractmethod
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from penstock.tasks import deduping
from penstock.tasks.errors import TaskExpired
from penstock.tasks.sql_store.base import SqlBase

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.tasks.retrying import Try
    from penstock.tasks.sql import Session
    from penstock.tasks.task import NewTask, TaskId


class Inserts(SqlBase):
    """Insert: all of a batch or none."""

    @abstractmethod
    async def _insert_rows(self, session: Session, tasks: Sequence[NewTask]) -> set[TaskId]:
        """Insert what does not collide, and say which those are."""

    @abstractmethod
    async def _insert_foreign(
        self, connection: Any, tasks: Sequence[NewTask], *, skip_duplicates: bool
    ) -> list[TaskId]:
        """Insert in the transaction that is open on the caller's connection."""

    async def insert(self, task: NewTask, *, connection: Any = None) -> TaskId:
        [task_id] = await self.insert_many([task], connection=connection)
        return task_id

    async def insert_many(
        self, tasks: Sequence[NewTask], *, skip_duplicates: bool = False, connection: Any = None
    ) -> list[TaskId]:
        if not tasks:
            return []
        if connection is not None:
            return await self._insert_foreign(connection, tasks, skip_duplicates=skip_duplicates)

        async def work(session: Session, attempt: Try) -> list[TaskId]:
            return await self._insert(session, attempt, tasks, skip_duplicates=skip_duplicates)

        return await self._atomically(work)

    async def _insert(
        self, session: Session, attempt: Try, tasks: Sequence[NewTask], *, skip_duplicates: bool
    ) -> list[TaskId]:
        if any(task.expires_at is not None or _is_past(task.expires_in) for task in tasks):
            self._refuse_expired(tasks, await self._read_clock(session, attempt))
        inserted = await self._insert_rows(session, tasks)
        return await deduping.resolve(
            deduping.Inserting(self._dialect, session, self._timed(), attempt, self._insert_rows),
            tasks,
            inserted,
            skip_duplicates=skip_duplicates,
        )

    @staticmethod
    def _refuse_expired(tasks: Sequence[NewTask], now: datetime) -> None:
        for task in tasks:
            expires_at = now + task.expires_in if task.expires_in is not None else task.expires_at
            if expires_at is not None and expires_at <= now:
                raise TaskExpired(
                    f"task {task.id} expires at {expires_at.isoformat()}, and the database's clock "
                    f"says {now.isoformat()}: give it more time"
                )


def _is_past(duration: timedelta | None) -> bool:
    return duration is not None and duration <= timedelta(0)
