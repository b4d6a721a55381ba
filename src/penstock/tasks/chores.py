"""What a reserve puts in order before it chooses, so that no sweeper is needed: decided here.

A lease that has ended, a task that has expired, a delay that is over.  The store finds them by the
end of an index, locks them, and does what is said here; most reserves find none.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING

from penstock.tasks.task import Status, TaskId

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

BATCH = 200
"""At most so many of each kind are put in order by one reserve."""


class Chore(Enum):
    """What to do with a task."""

    READY = auto()
    """Its delay is over: it takes its place among the ready ones."""
    EXPIRE = auto()
    REQUEUE = auto()
    """Its lease ended: others may have it."""
    BURY = auto()
    """Its lease ended, and it was the last attempt."""


@dataclass(frozen=True, slots=True)
class Locked:
    """A task that is locked, as far as a chore is concerned."""

    id: TaskId
    status: Status
    attempts: int
    max_attempts: int
    available_at: datetime
    lease_owner: str | None
    lease_until: datetime | None
    expires_at: datetime | None
    created_at: datetime
    updated_at: datetime


def chore_of(task: Locked, now: datetime) -> Chore | None:
    """What is to be done; None: another session did it."""
    expired = task.expires_at is not None and task.expires_at <= now
    if task.status is Status.LEASED and task.lease_until is not None and task.lease_until <= now:
        if task.attempts >= task.max_attempts:
            return Chore.BURY
        return Chore.EXPIRE if expired else Chore.REQUEUE
    if task.status is not Status.QUEUED:
        return None
    if expired:
        return Chore.EXPIRE
    delayed = task.available_at > task.created_at
    return Chore.READY if delayed and task.available_at <= now else None


def sorted_out(tasks: Iterable[Locked], now: datetime) -> dict[Chore, list[Locked]]:
    """The tasks by chore; ids ascend in each, so that two stores never lock crosswise."""
    found: defaultdict[Chore, list[Locked]] = defaultdict(list)
    for task in sorted(tasks, key=lambda each: each.id):
        chore = chore_of(task, now)
        if chore is not None:
            found[chore].append(task)
    return found


def lease_ended(task: Locked) -> str:
    """The reason that the task's record gets."""
    return f"the lease of {task.lease_owner or 'an unknown owner'} ended in attempt {task.attempts}"
