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
from penstock.tasks.task import TaskId
from penstock.worker.clockwork import Clockwork

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from penstock.tasks.store import TaskStore
    from penstock.tasks.task import NewTask
    from penstock.worker.schedules import Schedule


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
        return replace(self.task, id=TaskId(f"cron-{digest[:40]}"), meta=meta)


def task_clockwork(store: TaskStore, schedules: Iterable[TaskSchedule]) -> Clockwork:
    """What fires a task worker's schedules."""
    by_name = {each.line.name: each for each in schedules}

    async def enqueue(line: Schedule, fire_at: datetime) -> None:
        task = by_name[line.name].fire(fire_at)
        await store.insert_many([task], skip_duplicates=True)
        emit(Event(Name.SCHEDULE_FIRED, topic=task.topic, schedule=line.name, task_id=task.id))

    return Clockwork((each.line for each in by_name.values()), now=store.now, fire=enqueue)
