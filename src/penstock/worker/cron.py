"""Schedules: cron lines, which of their fires are due, and the loop that makes them.

Every worker makes every fire, under a key of the schedule's name and the fire's time, and the
database keeps the first.  So no worker need be the leader, and none is missed when one stops.
Time is the database's: a worker's own clock may be wrong, and a test may move the database's.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

from penstock.client import calls
from penstock.client.calls import looks
from penstock.errors import InvalidSetting, PenstockError
from penstock.observe.events import Event, Name, emit
from penstock.payloads import encode

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

# A fire that comes later than this was missed: the worker, or the database, was away.
LATE = timedelta(minutes=1)
# How far back a starting worker looks for a fire that no worker made.
CATCH_UP = timedelta(days=1)
# A dedupe key is remembered for longer than any worker looks back.
_REMEMBERED = 2 * CATCH_UP
# Clocks drift: the database's is asked again at least this often.
_LONGEST_SLEEP_SECONDS = 60.0
_RETRY_SECONDS = 5.0


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


class Cron(ABC):
    """Fires schedules for as long as it runs."""

    def __init__(self, schedules: Iterable[Schedule]) -> None:
        self._schedules = tuple(schedules)
        self._answered_to: dict[str, datetime] = {}
        self.fired = 0

    @abstractmethod
    async def now(self) -> datetime:
        """The time that counts, which is the database's."""

    @abstractmethod
    async def fire(self, schedule: Schedule, fire_at: datetime) -> None:
        """Make one fire; it exists once however many workers make it."""

    async def run(self) -> None:
        """Never ends by itself: a database that is away is asked again."""
        while True:
            try:
                pause = await self.once()
            except PenstockError:
                pause = _RETRY_SECONDS
            await asyncio.sleep(pause)

    async def once(self) -> float:
        """Make all fires that are due; returns the seconds until the next."""
        asked_at = time.monotonic()
        now = await self.now()
        made = [await self._catch_up(schedule, now) for schedule in self._schedules]
        if not all(made):
            return _RETRY_SECONDS
        until_next = min((next_fire(each, now) - now).total_seconds() for each in self._schedules)
        # Counted from the moment at which the database looked at its clock.
        left = until_next - (time.monotonic() - asked_at)
        return min(max(left, 0.0), _LONGEST_SLEEP_SECONDS)

    async def _catch_up(self, schedule: Schedule, now: datetime) -> bool:
        """Make one schedule's fires; False: it could not, and the others don't suffer for it."""
        after = self._answered_to.setdefault(schedule.name, looks_back_to(schedule, now))
        for fire_at in due(schedule, after, now):
            try:
                await self.fire(schedule, fire_at)
            except PenstockError as problem:
                # Tried again soon; by then it may be late, and is dealt with as such.
                kind = type(problem).__name__
                emit(Event(Name.CALL_FAILED, schedule=schedule.name, error_kind=kind))
                return False
            self.fired += 1
            self._answered_to[schedule.name] = fire_at
        self._answered_to[schedule.name] = now
        return True


class TopicCron(Cron):
    """Each fire is a message, published with a dedupe key."""

    def __init__(self, database: Any, schedules: Iterable[Schedule]) -> None:
        super().__init__(schedules)
        self._database = database

    async def now(self) -> datetime:
        moment: datetime = await self._database.claim(looks.clock())
        return moment

    async def fire(self, schedule: Schedule, fire_at: datetime) -> None:
        await self._database.run(
            calls.publish(
                schedule.topic,
                schedule.payload,
                headers={"schedule": schedule.name, "scheduled_for": fire_at.isoformat()},
                key=schedule.key,
                priority=schedule.priority,
                dedupe_key=schedule.dedupe_key(fire_at),
                dedupe_window=_REMEMBERED,
            )
        )
        emit(Event(Name.SCHEDULE_FIRED, topic=schedule.topic, schedule=schedule.name))
