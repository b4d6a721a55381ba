"""A worker's schedules: each fire is a message, published once however many workers run.

Every worker publishes every fire, with a dedupe key made of the schedule's name and the fire's
time; the engine keeps the first.  So no worker need be the leader, and none is missed when one
stops.  Time is the database's: a worker's own clock may be wrong.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from penstock.client import calls
from penstock.client.calls import Call
from penstock.client.rows import one, same
from penstock.observe.events import Event, Name, emit
from penstock.worker.clockwork import Clockwork
from penstock.worker.schedules import CATCH_UP

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from penstock.worker.schedules import Schedule

# A dedupe key is remembered for longer than any worker looks back.
_REMEMBERED = 2 * CATCH_UP
_DATABASE_TIME: Call[datetime] = Call("select clock_timestamp()", (), one(same))


def timetable(database: Any, schedules: Iterable[Schedule]) -> Clockwork:
    """What fires a worker's schedules."""
    return Clockwork(
        schedules, now=partial(database.claim, _DATABASE_TIME), fire=partial(_publish, database)
    )


async def _publish(database: Any, schedule: Schedule, fire_at: datetime) -> None:
    await database.run(
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
