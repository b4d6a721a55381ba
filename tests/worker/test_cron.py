"""Schedules: when they fire, and that they fire once however many workers run."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

import penstock
from penstock import Worker
from penstock.client import calls
from penstock.errors import InvalidSetting
from penstock.worker.cron import (
    LATE,
    Missed,
    Schedule,
    TopicCron,
    due,
    looks_back_to,
    next_fire,
    schedule_named,
)
from tests.fixtures import clock
from tests.worker.play import terminate_others, until, working

if TYPE_CHECKING:
    import psycopg

    from penstock import Client

    Db = psycopg.Connection[Any]


def schedule(cron: str, **more: Any) -> Schedule:
    return Schedule("nightly", cron, "orders", {"run": 1}, **more)


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


# Pure


def test_the_next_fire_follows_the_expression_in_its_time_zone():
    assert next_fire(schedule("30 6 * * mon-fri"), at("2030-01-04T06:30:00")) == at(
        "2030-01-07T06:30:00"
    )
    berlin = schedule("30 6 * * *", timezone="Europe/Berlin")
    assert next_fire(berlin, at("2030-01-01T00:00:00")) == at("2030-01-01T05:30:00")
    assert next_fire(berlin, at("2030-07-01T00:00:00")) == at("2030-07-01T04:30:00")


def test_an_hour_that_the_clocks_skip_or_repeat_fires_once():
    berlin = schedule("30 2 * * *", timezone="Europe/Berlin")
    # On the last Sunday of March there is no 02:30, on that of October there are two.
    spring = [next_fire(berlin, at("2030-03-30T12:00:00")), at("2030-03-31T12:00:00")]
    assert next_fire(berlin, spring[0]) > spring[1]
    autumn = next_fire(berlin, at("2030-10-26T12:00:00"))
    assert next_fire(berlin, autumn) - autumn > timedelta(hours=20)


def test_every_fire_that_is_due_is_made_oldest_first():
    now = at("2030-01-01T12:00:30")
    found = due(schedule("*/10 * * * * *"), now - timedelta(seconds=25), now)
    assert found == [
        at("2030-01-01T12:00:10"),
        at("2030-01-01T12:00:20"),
        at("2030-01-01T12:00:30"),
    ]
    assert due(schedule("*/10 * * * * *"), now, now) == []


def test_what_was_missed_is_skipped_or_made_up_for_once():
    now = at("2030-01-01T12:30:00")
    after = at("2030-01-01T08:00:00")
    assert due(schedule("0 * * * *"), after, now) == []
    latest = schedule("0 * * * *", missed=Missed.LATEST)
    assert due(latest, after, now) == [at("2030-01-01T12:00:00")]
    assert due(latest, at("2030-01-01T12:00:00"), now) == []
    # One that is only a little late was not missed.
    assert due(schedule("0 * * * *"), after, at("2030-01-01T12:00:00") + LATE) == [
        at("2030-01-01T12:00:00")
    ]


def test_a_starting_worker_looks_back_only_if_missed_fires_are_wanted():
    now = at("2030-01-01T12:00:00")
    assert looks_back_to(schedule("0 * * * *"), now) == now
    assert looks_back_to(schedule("0 * * * *", missed=Missed.LATEST), now) < now


def test_a_name_is_the_same_in_every_process_and_another_for_another_schedule():
    assert schedule_named("0 * * * *", "orders", "UTC", None) == "orders-" + (
        schedule_named("0 * * * *", "orders", "UTC", None).removeprefix("orders-")
    )
    assert schedule_named("0 * * * *", "orders", "UTC", None) != schedule_named(
        "1 * * * *", "orders", "UTC", None
    )
    assert schedule_named("0 * * * *", "orders", "UTC", "mine") == "mine"


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"cron": "every day"}, "five fields are needed"),
        ({"cron": "61 * * * *"}, "'61 \\* \\* \\* \\*' is no cron expression"),
        ({"cron": "0 0 31 2 *"}, "no cron expression"),
        ({"cron": "0 * * * *", "timezone": "Mars/Base"}, "no time zone 'Mars/Base'"),
        ({"cron": "0 * * * *", "timezone": "../etc/passwd"}, "no time zone"),
        ({"cron": "0 * * * *", "missed": "all"}, "choose 'skip' or 'latest'"),
    ],
)
def test_a_schedule_that_can_not_be_is_told_at_once(given: dict[str, Any], problem: str):
    with pytest.raises(InvalidSetting, match=problem):
        Worker(penstock.connect()).schedule(topic="orders", payload={}, name="nightly", **given)


# On a database


def published(db: Db) -> list[Any]:
    rows = db.execute("select headers ->> 'scheduled_for' from penstock.browse_messages('billing')")
    return [row[0] for row in rows]


async def test_a_schedule_fires_once_across_two_workers(mq: Client, db: Db):
    workers = [Worker(mq, name=name) for name in ("one", "two")]
    for worker in workers:
        worker.schedule("* * * * * *", topic="orders", payload={}, name="tick")
    async with working(*workers):
        await until(lambda: all(each.status().schedules_fired >= 3 for each in workers))
    times = published(db)
    assert len(times) == len(set(times)) >= 3


async def test_two_schedulers_that_fire_at_the_same_moment_publish_one_message(mq: Client, db: Db):
    hourly = schedule("0 * * * *", missed=Missed.LATEST)
    schedulers = [TopicCron(mq.database, [hourly]) for _ in range(5)]
    await asyncio.gather(*(each.once() for each in schedulers))
    assert [each.fired for each in schedulers] == [1] * 5
    assert len(published(db)) == 1


async def test_a_worker_makes_up_for_the_latest_fire_that_nobody_made(mq: Client, db: Db):
    await TopicCron(mq.database, [schedule("0 * * * *", missed=Missed.LATEST)]).once()
    (text,) = published(db)
    age = datetime.now(UTC) - datetime.fromisoformat(text)
    assert timedelta(0) <= age <= timedelta(hours=1)
    await TopicCron(mq.database, [schedule("0 * * * *", missed=Missed.SKIP)]).once()
    assert len(published(db)) == 1


async def test_a_schedule_follows_the_clock_that_a_test_moves(mq: Client, db: Db):
    yearly = schedule("0 0 1 1 *")
    cron = TopicCron(mq.database, [yearly])
    await cron.once()
    assert published(db) == []
    now = await cron.now()
    new_year = next_fire(yearly, now)
    clock.advance(db, seconds=(new_year - now).total_seconds() + 1)
    await cron.once()
    assert published(db) == [new_year.isoformat()]


async def test_a_fire_tells_its_schedule_and_carries_its_payload(mq: Client, db: Db):
    await TopicCron(mq.database, [schedule("0 * * * *", missed=Missed.LATEST, key="k")]).once()
    (message,) = await mq.claim("billing")
    assert message.payload == {"run": 1}
    assert message.headers["schedule"] == "nightly"
    assert message.key == "k"


async def test_a_schedule_goes_on_when_its_sessions_are_terminated(mq: Client, db: Db):
    worker = Worker(mq)
    worker.schedule("* * * * * *", topic="orders", payload={}, name="tick")
    async with working(worker):
        await until(lambda: worker.status().schedules_fired >= 1)
        terminate_others(db)
        before = worker.status().schedules_fired
        await until(lambda: worker.status().schedules_fired >= before + 2)


async def test_a_topic_that_does_not_exist_yet_does_not_end_the_schedule(mq: Client, db: Db):
    later = Schedule("later", "0 * * * *", "nowhere", {}, missed=Missed.LATEST)
    scheduler = TopicCron(mq.database, [later, schedule("0 * * * *", missed=Missed.LATEST)])
    await scheduler.once()
    # The other one fires all the same.
    assert len(published(db)) == 1
    await mq.run(calls.create_topic("nowhere"))
    await mq.create_queue("there", topic="nowhere")
    await scheduler.once()
    assert len(await mq.claim("there")) == 1
