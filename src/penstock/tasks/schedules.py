"""Tasks enqueued by the clock, once however many workers run.

Every worker enqueues every fire, under an id made of the schedule's name and the fire's time; the
store keeps the first.  Time is the store's.
"""

from __future__ import annotations

import asyncio
import hashlib
from dataclasses import dataclass, replace
from datetime import UTC
from typing import TYPE_CHECKING

from penstock.errors import PenstockError
from penstock.observe.events import Event, Name, emit
from penstock.tasks.task import TaskId
from penstock.worker.schedules import Schedule, due, looks_back_to, next_fire

if TYPE_CHECKING:
    from datetime import datetime

    from penstock.tasks.store import TaskStore
    from penstock.tasks.task import NewTask

_LONGEST_SLEEP_SECONDS = 60.0
_RETRY_SECONDS = 5.0


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


class TaskScheduler:
    """Fires schedules for as long as a worker runs."""

    def __init__(self, store: TaskStore, schedules: list[TaskSchedule]) -> None:
        self._store = store
        self._schedules = schedules
        self._answered_to: dict[str, datetime] = {}

    async def run(self) -> None:
        """Never ends by itself: a database that is away is asked again."""
        while True:
            try:
                pause = await self.once()
            except PenstockError:
                pause = _RETRY_SECONDS
            await asyncio.sleep(pause)

    async def once(self) -> float:
        """Make all fires that are due; the seconds until the next."""
        now = await self._store.now()
        for schedule in self._schedules:
            await self._catch_up(schedule, now)
        until_next = min(next_fire(each.line, now) - now for each in self._schedules)
        return min(max(until_next.total_seconds(), 0.0), _LONGEST_SLEEP_SECONDS)

    async def _catch_up(self, schedule: TaskSchedule, now: datetime) -> None:
        name = schedule.line.name
        after = self._answered_to.setdefault(name, looks_back_to(schedule.line, now))
        for fire_at in due(schedule.line, after, now):
            task = schedule.fire(fire_at)
            await self._store.insert_many([task], skip_duplicates=True)
            self._answered_to[name] = fire_at
            emit(Event(Name.SCHEDULE_FIRED, topic=task.topic, schedule=name, task_id=task.id))
        self._answered_to[name] = now
