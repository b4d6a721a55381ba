"""What happens to a task whose id or dedupe key is taken."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, assert_never

from penstock.tasks import rows
from penstock.tasks.errors import DuplicateTask
from penstock.tasks.task import OPEN, Dedupe, Deduping, NewTask, Status, TaskId

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from penstock.tasks.reserving import Dialect
    from penstock.tasks.retrying import Try
    from penstock.tasks.sql import Parameters, Session


@dataclass(frozen=True, slots=True)
class Holder:
    """The task that has the key."""

    id: TaskId
    status: Status
    expires_at: datetime | None
    created_at: datetime


def keeps_out(holder: Holder, dedupe: Deduping, now: datetime) -> bool:
    """Whether the first task still keeps a second one out."""
    match dedupe:
        case Dedupe.FOREVER:
            return True
        case Dedupe.WHILE_OPEN:
            expired = holder.expires_at is not None and holder.expires_at <= now
            # A worker that has begun goes on, however late it is.
            return holder.status is Status.LEASED or (holder.status in OPEN and not expired)
        case timedelta():
            return holder.created_at + dedupe > now
        case _:
            assert_never(dedupe)


@dataclass(frozen=True, slots=True)
class Inserting:
    """An insert under way."""

    dialect: Dialect
    session: Session
    timed: Parameters
    attempt: Try
    insert: Callable[[Session, Sequence[NewTask]], Awaitable[set[TaskId]]]


async def resolve(
    inserting: Inserting,
    tasks: Sequence[NewTask],
    inserted: set[TaskId],
    *,
    skip_duplicates: bool,
) -> list[TaskId]:
    """The id under which each task is stored; those that collided are dealt with one by one."""
    found: dict[int, TaskId] = {}
    collided: list[int] = []
    for number, task in enumerate(tasks):
        if task.id in inserted:
            inserted.discard(task.id)
            found[number] = task.id
        else:
            collided.append(number)
    for number in sorted(collided, key=lambda each: key_order(tasks[each])):
        try:
            found[number] = await _collided(inserting, tasks[number])
        except DuplicateTask as duplicate:
            if not skip_duplicates:
                raise
            found[number] = TaskId(duplicate.task_id)
    return [found[number] for number in range(len(tasks))]


def key_order(task: NewTask) -> tuple[str, str, str]:
    """The order in which tasks are written: the same in every call, so that none wait crosswise."""
    return task.tenant_id, task.dedupe_key or "", task.id


async def _collided(inserting: Inserting, task: NewTask) -> TaskId:
    while True:
        # Most holders keep the task out for good, and need not be locked to see it.
        holder = await _admitted(inserting, task, lock=False)
        if isinstance(holder, str):
            return holder
        if holder is not None:
            holder = await _admitted(inserting, task, lock=True)
            if isinstance(holder, str):
                return holder
        if holder is not None:
            await inserting.session.run(inserting.dialect["free_key"], {"id": holder.id})
        if await inserting.insert(inserting.session, [task]):
            return task.id


async def _admitted(inserting: Inserting, task: NewTask, *, lock: bool) -> Holder | TaskId | None:
    """The holder that must give its key away, or the id of the task if it is stored already."""
    found = await _holder(inserting, task, lock=lock)
    if found is None:
        return None
    holder, now = found
    if holder.id == task.id:
        if inserting.attempt.outcome_unknown:
            # The answer to an earlier try was lost: this is that try's own row.
            return task.id
        raise DuplicateTask(task.id, tenant_id=task.tenant_id, dedupe_key=None)
    if keeps_out(holder, task.dedupe, now):
        raise DuplicateTask(holder.id, tenant_id=task.tenant_id, dedupe_key=task.dedupe_key)
    return holder


async def _holder(
    inserting: Inserting, task: NewTask, *, lock: bool
) -> tuple[Holder, datetime] | None:
    # Its own id first: when that is taken, nothing else matters.
    for name, parameters in (
        ("holder_by_id", {"id": task.id}),
        ("holder_by_key", {"tenant_id": task.tenant_id, "dedupe_key": task.dedupe_key}),
    ):
        sql = inserting.dialect[name] + (" for update" if lock else "")
        found = await inserting.session.rows(sql, {**inserting.timed, **parameters})
        if found:
            task_id, status, expires_at, created_at, now = found[0]
            return Holder(
                TaskId(task_id), Status(status), rows.moment(expires_at), rows.sure(created_at)
            ), rows.sure(now)
    return None
