"""What a handler does decides what becomes of its message."""

from __future__ import annotations

import asyncio
import logging
import pickle
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from penstock import Dead, Retry, Worker
from penstock.errors import PayloadInvalid
from penstock.observe.events import Event, Name, subscribe
from penstock.worker.outcomes import LONGEST_ERROR, Verdict, outcome_of
from tests.fixtures import clock
from tests.worker.play import dead_letters, states, until, working

if TYPE_CHECKING:
    import psycopg

    from penstock import Client, Message

    Db = psycopg.Connection[Any]


@dataclass
class Order:
    number: int


async def test_a_handler_that_returns_acks_its_message(mq: Client, db: Db):
    worker, got = Worker(mq), []

    @worker.handler("billing")
    async def bill(message: Message[Any]) -> None:
        got.append(message.payload)

    await mq.publish("orders", {"order": 7})
    async with working(worker):
        await until(lambda: states(db)["done"] == 1)
    assert got == [{"order": 7}]
    assert worker.status().acked == 1


async def test_a_handler_that_raises_is_tried_again_and_its_last_error_is_kept(mq: Client, db: Db):
    await mq.create_queue("twice", topic="orders", max_delivery_attempts=2)
    worker, attempts = Worker(mq), []

    @worker.handler("twice", polling_interval=timedelta(milliseconds=10))
    async def bill(message: Message[Any]) -> None:
        attempts.append(message.attempt)
        raise ValueError(f"attempt {message.attempt}")

    heard: list[Event] = []
    await mq.publish("orders", {})
    with subscribe(heard.append):
        async with working(worker):
            await until(lambda: attempts == [1])
            await until(lambda: states(db, "twice")["claimed"] == 0)
            clock.advance(db, seconds=3600)
            await until(lambda: states(db, "twice")["dead"] == 1)
    assert attempts == [1, 2]
    assert dead_letters(db, "twice") == ["ValueError: attempt 2"]
    told = [
        (each.name, each.attempt, each.error_kind)
        for each in heard
        if each.name in (Name.MESSAGE_FAILED, Name.MESSAGE_DEAD_LETTERED)
    ]
    assert told == [
        ("message.failed", 1, "ValueError"),
        ("message.failed", 2, "ValueError"),
        ("message.dead_lettered", 2, "ValueError"),
    ]
    (handler,) = worker.status().handlers
    assert (handler.failed, handler.dead) == (2, 1)


async def test_a_retry_waits_as_long_as_the_handler_says(mq: Client, db: Db):
    worker, attempts = Worker(mq), []

    @worker.handler("billing")
    async def bill(message: Message[Any]) -> None:
        attempts.append(message.attempt)
        if message.attempt == 1:
            raise Retry(timedelta(hours=2))

    await mq.publish("orders", {})
    async with working(worker):
        await until(lambda: states(db)["pending"] == 1 and attempts)
    left = db.execute("select penstock.get_next_visible_time('billing') - now()").fetchone()
    assert left is not None
    assert timedelta(minutes=119) < left[0] <= timedelta(hours=2)


async def test_dead_sends_a_message_to_the_dead_letters_at_once(mq: Client, db: Db):
    worker = Worker(mq)

    @worker.handler("billing")
    async def bill(message: Message[Any]) -> None:
        raise Dead("the customer is gone")

    await mq.publish("orders", {})
    async with working(worker):
        await until(lambda: states(db)["dead"] == 1)
    assert dead_letters(db) == ["the customer is gone"]


async def test_a_payload_that_does_not_fit_its_type_is_buried_and_the_next_one_handled(
    mq: Client, db: Db
):
    worker, got = Worker(mq), []

    @worker.handler("billing", payload_type=Order)
    async def bill(message: Message[Order]) -> None:
        got.append(message.payload)

    await mq.publish_many("orders", [{"number": "seven"}, {"number": 8}])
    async with working(worker):
        await until(lambda: states(db)["dead"] == 1 and states(db)["done"] == 1)
    assert got == [Order(8)]
    (error,) = dead_letters(db)
    assert "Order" in error
    assert "number" in error


async def test_a_message_that_takes_too_long_has_failed(mq: Client, db: Db):
    await mq.create_queue("once", topic="orders", max_delivery_attempts=1)
    worker, cancelled = Worker(mq), []

    @worker.handler("once", timeout=timedelta(milliseconds=20))
    async def bill(message: Message[Any]) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(message.id)
            raise

    published = await mq.publish("orders", {})
    async with working(worker):
        await until(lambda: states(db, "once")["dead"] == 1)
    assert cancelled == [published.id]
    assert dead_letters(db, "once") == ["TookTooLong: the handler took longer than 0.02 s"]


@pytest.mark.parametrize("problem", [SystemExit(3), asyncio.CancelledError(), TimeoutError()])
async def test_whatever_a_handler_raises_the_worker_goes_on(
    mq: Client, db: Db, problem: BaseException
):
    await mq.create_queue("once", topic="orders", max_delivery_attempts=1)
    worker = Worker(mq)

    @worker.handler("once", timeout=timedelta(seconds=30))
    async def bill(message: Message[Any]) -> None:
        if message.payload == "bad":
            raise problem

    await mq.publish_many("orders", ["bad", "good"])
    async with working(worker):
        await until(lambda: states(db, "once")["done"] == 1 and states(db, "once")["dead"] == 1)
    assert dead_letters(db, "once")[0].startswith(type(problem).__name__)


async def test_a_handler_may_finish_its_message_itself(mq: Client, db: Db):
    worker = Worker(mq)

    @worker.handler("billing")
    async def bill(message: Message[Any]) -> None:
        if message.payload == "ack":
            assert await message.ack()
        else:
            assert await message.bury("I know better")

    await mq.publish_many("orders", ["ack", "bury"])
    async with working(worker):
        await until(lambda: states(db)["done"] == 1 and states(db)["dead"] == 1)
    assert worker.status().handlers[0].lost == 0
    assert dead_letters(db) == ["I know better"]


async def test_a_payload_never_reaches_the_log(
    mq: Client, db: Db, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.DEBUG)
    worker = Worker(mq)

    @worker.handler("billing")
    async def bill(message: Message[Any]) -> None:
        raise Dead(f"refused: {message.payload}")

    await mq.publish("orders", "hunter2")
    async with working(worker):
        await until(lambda: states(db)["dead"] == 1)
    assert dead_letters(db) == ["refused: hunter2"]
    assert "hunter2" not in caplog.text


# Pure


def test_an_error_that_the_database_can_not_hold_is_made_to_fit():
    text = outcome_of(ValueError("a\0b\udc80" + "x" * 5000)).error
    assert text is not None
    assert text.startswith("ValueError: a\\0b\\udc80x")
    assert len(text) == LONGEST_ERROR


def test_each_exception_asks_for_its_own_end():
    assert outcome_of(Retry(timedelta(seconds=5), "busy")).delay == timedelta(seconds=5)
    assert outcome_of(Retry(timedelta(seconds=5), "busy")).error == "busy"
    assert outcome_of(Dead("no")).verdict is Verdict.BURY
    assert outcome_of(PayloadInvalid("no Order")).verdict is Verdict.BURY
    assert outcome_of(KeyError("x")).verdict is Verdict.RETRY
    assert outcome_of(KeyError("x")).delay is None


def test_the_instructions_survive_the_way_from_another_process():
    again = pickle.loads(pickle.dumps(Retry(timedelta(seconds=5), "busy")))
    assert (again.delay, again.reason) == (timedelta(seconds=5), "busy")
    assert pickle.loads(pickle.dumps(Dead("no"))).reason == "no"
