"""The loop behind schedules: it decides when to fire; its creator gives it `now` and `fire`."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, TypeAlias

from penstock.errors import PenstockError
from penstock.observe.events import Event, Name, emit
from penstock.worker.schedules import due, looks_back_to, next_fire

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable
    from datetime import datetime

    from penstock.worker.schedules import Schedule

    Now: TypeAlias = Callable[[], Awaitable[datetime]]
    Fire: TypeAlias = Callable[[Schedule, datetime], Awaitable[None]]

# Clocks drift: whose time it is, is asked again at least this often.
_LONGEST_SLEEP_SECONDS = 60.0
_RETRY_SECONDS = 5.0


class Clockwork:
    """Fires schedules for as long as it runs.

    `now` tells the time that counts, which is the database's; `fire` makes one fire, and makes it
    once however many do so.
    """

    def __init__(self, schedules: Iterable[Schedule], *, now: Now, fire: Fire) -> None:
        self._schedules = tuple(schedules)
        self._now = now
        self._fire = fire
        self._answered_to: dict[str, datetime] = {}
        self.fired = 0

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
        now = await self._now()
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
                await self._fire(schedule, fire_at)
            except PenstockError as problem:
                # Tried again soon; by then it may be late, and is dealt with as such.
                kind = type(problem).__name__
                emit(Event(Name.CALL_FAILED, schedule=schedule.name, error_kind=kind))
                return False
            self.fired += 1
            self._answered_to[schedule.name] = fire_at
        self._answered_to[schedule.name] = now
        return True
