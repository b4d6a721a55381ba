"""From rows to values, and from values to what a database's driver wants."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from penstock.tasks.stores.store_rules import Candidate, Locked
from penstock.tasks.task import Attempt, DeadTask, Status, Task, TaskId

if TYPE_CHECKING:
    from penstock.tasks.stores.sql_statements import Row


def moment(value: datetime | None) -> datetime | None:
    """A time of the database, which are all UTC and don't say so."""
    return None if value is None else value.replace(tzinfo=UTC)


def stored(value: datetime | None) -> datetime | None:
    """A time as the database keeps it."""
    return None if value is None else value.astimezone(UTC).replace(tzinfo=None)


def sure(value: datetime) -> datetime:
    """As `moment`, for a column that is never null."""
    return value.replace(tzinfo=UTC)


def task(row: Row) -> Task:
    return Task(
        id=TaskId(row[0]),
        topic=row[1],
        tenant_id=row[2],
        payload=bytes(row[3]),
        meta=_json(row[4]),
        priority=row[5],
        dedupe_key=row[6],
        status=Status(row[7]),
        attempts=row[8],
        max_attempts=row[9],
        available_at=sure(row[10]),
        lease_owner=row[11],
        lease_until=moment(row[12]),
        expires_at=moment(row[13]),
        last_error=row[14],
        last_error_at=moment(row[15]),
        created_at=sure(row[16]),
        updated_at=sure(row[17]),
    )


def locked(row: Row) -> Locked:
    return Locked(
        id=TaskId(row[0]),
        status=Status(row[1]),
        attempts=row[2],
        max_attempts=row[3],
        available_at=sure(row[4]),
        lease_owner=row[5],
        lease_until=moment(row[6]),
        expires_at=moment(row[7]),
        created_at=sure(row[8]),
        updated_at=sure(row[9]),
    )


def candidate(row: Row) -> Candidate:
    return Candidate(TaskId(row[0]), row[1], row[2], row[3], sure(row[4]))


def dead_task(row: Row) -> DeadTask:
    number, task_id, topic, tenant_id, payload, meta, reason, failed_at = row
    return DeadTask(
        number,
        TaskId(task_id),
        topic,
        tenant_id,
        bytes(payload),
        _json(meta),
        reason,
        sure(failed_at),
    )


def attempt(row: Row) -> Attempt:
    task_id, number, reason, started_at, finished_at, success = row
    return Attempt(
        TaskId(task_id), number, reason, sure(started_at), moment(finished_at), bool(success)
    )


def _json(text: str | None) -> Any:
    """Meta data written by others may be anything, and must not make a task unreadable."""
    if text is None:
        return None
    try:
        return json.loads(text)
    except ValueError:
        return {"text": text}
