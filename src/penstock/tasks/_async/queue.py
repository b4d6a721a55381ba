"""Enqueuing: the everyday face of a store."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Self

from penstock.observe.events import Event, Name, emit
from penstock.tasks._async.store import TaskStore, open_store
from penstock.tasks.options import StoreOptions
from penstock.tasks.task import (
    DEFAULT_MAX_ATTEMPTS,
    DEFAULT_TENANT,
    Dedupe,
    Deduping,
    NewTask,
    Priority,
    Stats,
    Task,
    TaskId,
    encoded,
    new_task_id,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime, timedelta
    from types import TracebackType


def connect(
    dsn: str | None = None, *, options: StoreOptions | None = None, **more: Any
) -> TaskQueue:
    """A queue on the database that the DSN names: `async with connect(dsn) as queue`.

    Further arguments are those of `StoreOptions`, such as `attempt_log=True`.
    """
    return TaskQueue(open_store(dsn, options or StoreOptions(**more)))


class TaskQueue:
    """Puts tasks into a store.  `queue.store` has all the rest."""

    def __init__(self, store: TaskStore) -> None:
        self.store = store

    async def __aenter__(self) -> Self:
        await self.store.open()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.store.close()

    async def enqueue(
        self,
        topic: str,
        payload: bytes | str | dict[str, Any] | list[Any] | None = None,
        *,
        tenant_id: str = DEFAULT_TENANT,
        meta: dict[str, Any] | None = None,
        priority: int = Priority.NORMAL,
        max_attempts: int = DEFAULT_MAX_ATTEMPTS,
        delay: timedelta | None = None,
        available_at: datetime | None = None,
        expires_in: timedelta | None = None,
        expires_at: datetime | None = None,
        dedupe_key: str | None = None,
        dedupe: Deduping = Dedupe.FOREVER,
        task_id: str | None = None,
        connection: Any = None,
    ) -> TaskId:
        """Store a task and give its id.

        Bytes are kept as they are, text is encoded as UTF-8, anything else becomes JSON.  With
        `connection` (PostgreSQL) the task is stored in that connection's open transaction.
        Raises DuplicateTask, TaskExpired, InvalidTask.
        """
        task = NewTask(
            topic=topic,
            payload=encoded(payload),
            tenant_id=tenant_id,
            meta=meta,
            priority=priority,
            max_attempts=max_attempts,
            delay=delay,
            available_at=available_at,
            expires_in=expires_in,
            expires_at=expires_at,
            dedupe_key=dedupe_key,
            dedupe=dedupe,
            id=TaskId(task_id) if task_id is not None else new_task_id(),
        )
        stored = await self.store.insert(task, connection=connection)
        emit(Event(Name.TASK_ENQUEUED, topic=topic, task_id=stored))
        return stored

    async def enqueue_many(
        self, tasks: Sequence[NewTask], *, skip_duplicates: bool = False, connection: Any = None
    ) -> list[TaskId]:
        """Store all of them or none."""
        stored = await self.store.insert_many(
            tasks, skip_duplicates=skip_duplicates, connection=connection
        )
        # One that was there already has an id that is not its own.
        new = [task for task, task_id in zip(tasks, stored, strict=True) if task.id == task_id]
        for topic, count in Counter(task.topic for task in new).items():
            emit(Event(Name.TASK_ENQUEUED, topic=topic, count=count))
        return stored

    async def get(self, task_id: str) -> Task | None:
        """The task as it stands now, or None."""
        return await self.store.get(TaskId(task_id))

    async def result(self, task_id: str) -> bytes | None:
        """What the task's handler returned, where results are kept."""
        return await self.store.result(TaskId(task_id))

    async def cancel(self, task_id: str, reason: str = "cancelled") -> bool:
        """End an open task; a worker that has it loses the lease."""
        return await self.store.cancel(TaskId(task_id), reason)

    async def stats(self, *, topic: str | None = None, tenant_id: str | None = None) -> Stats:
        """How many tasks stand where."""
        return await self.store.stats(topic=topic, tenant_id=tenant_id)
