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
    found: list[TaskId] = []
    for task in tasks:
        if task.id in inserted:
            inserted.discard(task.id)
            found.append(task.id)
            continue
        try:
            found.append(await _collided(inserting, task))
        except DuplicateTask as duplicate:
            if not skip_duplicates:
                raise
            found.append(TaskId(duplicate.task_id))
    return found


async def _collided(inserting: Inserting, task: NewTask) -> TaskId:
    while True:
        holder, now = await _holder(inserting, task)
        if holder is not None:
            if holder.id == task.id:
                if inserting.attempt.outcome_unknown:
                    # The answer to an earlier try was lost: this is that try's own row.
                    return task.id
                raise DuplicateTask(task.id, tenant_id=task.tenant_id, dedupe_key=None)
            if keeps_out(holder, task.dedupe, now):
                raise DuplicateTask(holder.id, tenant_id=task.tenant_id, dedupe_key=task.dedupe_key)
            await inserting.session.run(inserting.dialect["free_key"], {"id": holder.id})
        if await inserting.insert(inserting.session, [task]):
            return task.id


async def _holder(inserting: Inserting, task: NewTask) -> tuple[Holder | None, datetime]:
    # Its own id first: when that is taken, nothing else matters.
    for name, parameters in (
        ("holder_by_id", {"id": task.id}),
        ("holder_by_key", {"tenant_id": task.tenant_id, "dedupe_key": task.dedupe_key}),
    ):
        found = await inserting.session.rows(
            inserting.dialect[name], {**inserting.timed, **parameters}
        )
        if found:
            task_id, status, expires_at, created_at, now = found[0]
            return Holder(
                TaskId(task_id), Status(status), rows.moment(expires_at), rows.sure(created_at)
            ), rows.sure(now)
    [row] = await inserting.session.rows(inserting.dialect["now"], inserting.timed)
    return None, rows.sure(row[0])
