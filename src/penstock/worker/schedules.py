"""Schedules: cron lines, and which of their fires are due; decided without any clock."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

from penstock.errors import InvalidSetting
from penstock.payloads import encode

if TYPE_CHECKING:
    from collections.abc import Iterator

# A fire that comes later than this was missed: the worker, or the database, was away.
LATE = timedelta(minutes=1)
# How far back a starting worker looks for a fire that no worker made.
CATCH_UP = timedelta(days=1)


class Missed(StrEnum):
    """What to do about fires that should have happened while no worker or database was there."""

    SKIP = "skip"
    """Nothing; the next one comes at its time."""
    LATEST = "latest"
    """Make up for the latest of them, once."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """One cron line."""

    name: str
    cron: str
    topic: str
    payload: Any
    timezone: str = "UTC"
    missed: Missed = Missed.SKIP
    key: str | None = None
    priority: int | None = None

    def __post_init__(self) -> None:
        next(_times(self, datetime.now(UTC), backwards=False), None)
        encode(self.payload)  # one that JSON can't hold is told now, not at the first fire

    def dedupe_key(self, fire_at: datetime) -> str:
        return f"schedule:{self.name}:{fire_at.astimezone(UTC).isoformat()}"


def schedule_named(cron: str, topic: str, timezone: str, name: str | None) -> str:
    """A schedule's name: the given one, or one that is the same in every worker."""
    if name is not None:
        return name
    # Two schedules of a topic may have the same name only if they are the same.
    digest = hashlib.sha256(f"{cron}\0{topic}\0{timezone}".encode()).hexdigest()[:12]
    return f"{topic}-{digest}"


def next_fire(schedule: Schedule, after: datetime) -> datetime:
    """The first fire after a moment."""
    found = next(_times(schedule, after, backwards=False), None)
    if found is None:
        raise InvalidSetting(f"the schedule {schedule.name!r} ({schedule.cron}) never fires again")
    return found


def due(schedule: Schedule, after: datetime, now: datetime) -> list[datetime]:
    """The fires after one moment and up to another that are to be made now, oldest first."""
    fires: list[datetime] = []
    # Backwards from now: after a long absence of a frequent schedule only the end matters.
    for fire_at in _times(schedule, now + timedelta(seconds=1), backwards=True):
        if fire_at > now:
            continue
        if fire_at <= after or now - fire_at > LATE:
            if fire_at > after and not fires and schedule.missed is Missed.LATEST:
                fires.append(fire_at)
            break
        fires.append(fire_at)
    return fires[::-1]


def looks_back_to(schedule: Schedule, started_at: datetime) -> datetime:
    """From when on a worker that starts answers for a schedule's fires."""
    match schedule.missed:
        case Missed.SKIP:
            return started_at
        case Missed.LATEST:
            return started_at - CATCH_UP


def _times(schedule: Schedule, moment: datetime, *, backwards: bool) -> Iterator[datetime]:
    try:
        zone = ZoneInfo(schedule.timezone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise InvalidSetting(
            f"schedule {schedule.name!r}: there is no time zone {schedule.timezone!r}; "
            "use a name such as UTC or Europe/Berlin"
        ) from None
    try:
        found = CronSim(schedule.cron, moment.astimezone(zone), reverse=backwards)
    except CronSimError as problem:
        raise InvalidSetting(
            f"schedule {schedule.name!r}: {schedule.cron!r} is no cron expression ({problem}); "
            'five fields are needed, "minute hour day month weekday", such as "30 6 * * mon-fri", '
            "or six with the seconds in front"
        ) from None
    return (each.astimezone(UTC) for each in found)
