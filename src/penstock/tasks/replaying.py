"""Dead letters on their way back among the tasks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.tasks import rows
from penstock.tasks.task import Status

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    from penstock.tasks.reserving import Dialect
    from penstock.tasks.sql import Parameters, Session

_AT_ONCE = 200


@dataclass(frozen=True, slots=True)
class Replay:
    """What is wished for."""

    delay: timedelta | None
    available_at: datetime | None
    reset_attempts: bool
    topic: str | None
    tenant_id: str | None
    timed: Parameters

    def until(self, now: datetime) -> datetime | None:
        if self.available_at is not None:
            return self.available_at
        return now + self.delay if self.delay else None


async def replay_some(
    session: Session,
    dialect: Dialect,
    wish: Replay,
    after: int,
    limit: int | None,
) -> tuple[int, int | None]:
    """Move the next few; how many were moved, and the last number seen (None: no more)."""
    at_once = _AT_ONCE if limit is None else min(limit, _AT_ONCE)
    letters = await session.rows(
        dialect["oldest_dlq"],
        {"after": after, "topic": wish.topic, "tenant_id": wish.tenant_id, "limit": at_once},
    )
    if not letters:
        return 0, None
    now, dead, gone = await _sorted(session, dialect, wish.timed, letters)
    common = {"now": rows.stored(now), "until": rows.stored(wish.until(now))}
    if dead:
        ids = sorted(dead)
        await session.run(dialect["replay"], {**common, "ids": ids, "reset": wish.reset_attempts})
    if gone:
        await session.run(dialect["restore"], {**common, "numbers": sorted(gone.values())})
    moved = {number for number, task_id in letters if task_id in dead or task_id in gone}
    if moved:
        await session.run(dialect["drop_dlq"], {"numbers": sorted(moved)})
    return len(moved), letters[-1][0]


async def _sorted(
    session: Session, dialect: Dialect, timed: Parameters, letters: list[tuple[int, str]]
) -> tuple[datetime, set[str], dict[str, int]]:
    """The time, tasks that are dead, and task ids (with a letter's number) that are gone."""
    ids = sorted({task_id for _, task_id in letters})
    [clock] = await session.rows(dialect["now"], timed)
    found = await session.rows(dialect["standings"], {**timed, "ids": ids})
    standing = {row[0]: row[1] for row in found}
    dead = {task_id for task_id, status in standing.items() if status == Status.DEAD}
    gone = {task_id: number for number, task_id in letters if task_id not in standing}
    return rows.sure(clock[0]), dead, gone
