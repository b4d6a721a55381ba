"""Tasks enqueued by the clock, once however many workers run.

Every worker enqueues every fire, under an id made of the schedule's name and the fire's time; the
store keeps the first.  Time is the store's.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from datetime import UTC
from typing import TYPE_CHECKING

from penstock.observe.events import Event, Name, emit
from penstock.tasks.task import FIRE_PREFIX, TaskId
from penstock.worker.cron import Cron

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from penstock.tasks.store import TaskStore
    from penstock.tasks.task import NewTask
    from penstock.worker.cron import Schedule


@dataclass(frozen=True, slots=True)
class TaskSchedule:
    """A cron line and the task that it makes."""

    line: Schedule
    task: NewTask

    def fire(self, fire_at: datetime) -> NewTask:
        """The task of one fire, the same in every worker."""
        moment = fire_at.astimezone(UTC).isoformat()
        digest = hashlib.sha256(f"{self.line.name}\0{moment}".encode()).hexdigest()
        meta = {**(self.task.meta or {}), "schedule": self.line.name, "scheduled_for": moment}
        return replace(self.task, id=TaskId(f"{FIRE_PREFIX}{digest[:40]}"), meta=meta)


class TaskCron(Cron):
    """Each fire is a task, under an id that every worker gives it."""

    def __init__(self, store: TaskStore, schedules: Iterable[TaskSchedule]) -> None:
        self._store = store
        self._by_name = {each.line.name: each for each in schedules}
        super().__init__(each.line for each in self._by_name.values())

    async def now(self) -> datetime:
        return await self._store.now()

    async def fire(self, schedule: Schedule, fire_at: datetime) -> None:
        task = self._by_name[schedule.name].fire(fire_at)
        await self._store.insert_many([task], skip_duplicates=True)
        emit(Event(Name.SCHEDULE_FIRED, topic=task.topic, schedule=schedule.name, task_id=task.id))
