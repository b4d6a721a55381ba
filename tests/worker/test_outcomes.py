"""What a handler does decides what becomes of its message."""

from __future__ import annotations

import asyncio
import logging
import pickle
import sys
from dataclasses import dataclass
from datetime import timedelta
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from penstock import Dead, Retry, Worker
from penstock.client import calls
from penstock.errors import InvalidSetting, PayloadInvalid
from penstock.observe.events import Event, Name, subscribe
from penstock.worker.failure_log import FailureLog
from penstock.worker.outcomes import LONGEST_ERROR, Verdict, outcome_of
from tests.fixtures import clock
from tests.worker.play import dead_letters, states, until, working

if TYPE_CHECKING:
    import psycopg

    from penstock import Client, Message
    from penstock.models import ClaimedMessage

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


@pytest.mark.parametrize("delay", [timedelta(hours=-1), timedelta(days=9999), timedelta.max])
async def test_a_retry_of_any_delay_stops_no_ack(mq: Client, db: Db, delay: timedelta):
    worker = Worker(mq)

    @worker.handler("billing")
    async def bill(message: Message[Any]) -> None:
        if message.payload == "later" and message.attempt == 1:
            raise Retry(delay)

    await mq.publish_many("orders", ["later", "good", "good"])
    # A negative delay is none, and a very long one a year.
    done = 3 if delay < timedelta(0) else 2
    async with working(worker):
        await until(lambda: states(db)["done"] == done)
        await until(lambda: states(db)["claimed"] == 0)


async def test_an_outcome_that_the_database_refuses_is_final_for_its_message_alone(
    mq: Client, db: Db
):
    await mq.create_queue("gone", topic="orders")
    worker, deleted = Worker(mq), asyncio.Event()

    @worker.handler("gone")
    async def lose(message: Message[Any]) -> None:
        await deleted.wait()

    @worker.handler("billing")
    async def bill(message: Message[Any]) -> None: ...

    await mq.publish("orders", {})
    async with working(worker):
        await until(lambda: worker.status().running == 1)
        await until(lambda: states(db)["done"] == 1)
        await mq.delete_queue("gone")
        deleted.set()
        await until(lambda: worker.status().handlers[0].held == 0)
    assert worker.status().handlers[0].lost == 1


class Mine(BaseException):
    """An application's own, beside Exception."""


@pytest.mark.parametrize(
    "problem",
    [SystemExit(3), asyncio.CancelledError(), TimeoutError(), Mine("x"), GeneratorExit()],
    ids=lambda problem: type(problem).__name__,
)
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


async def test_a_handler_that_cancels_itself_has_failed(mq: Client, db: Db):
    await mq.create_queue("once", topic="orders", max_delivery_attempts=1)
    worker = Worker(mq)

    @worker.handler("once")
    async def bill(message: Message[Any]) -> None:
        if message.payload == "bad":
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
            await asyncio.sleep(0)

    await mq.publish_many("orders", ["bad", "good"])
    async with working(worker):
        await until(lambda: states(db, "once")["done"] == 1 and states(db, "once")["dead"] == 1)


@pytest.mark.parametrize("problem", [StopIteration(7), SystemExit(3), Mine("x")])
async def test_whatever_a_thread_raises_the_worker_goes_on(
    mq: Client, db: Db, problem: BaseException
):
    await mq.create_queue("once", topic="orders", max_delivery_attempts=1)
    worker = Worker(mq)

    @worker.handler("once")
    def bill(message: ClaimedMessage) -> None:
        if message.payload == "bad":
            raise problem

    await mq.publish_many("orders", ["bad", "good"])
    async with working(worker):
        await until(lambda: states(db, "once")["done"] == 1 and states(db, "once")["dead"] == 1)
    assert type(problem).__name__ in dead_letters(db, "once")[0]


@pytest.mark.skipif(sys.version_info < (3, 12), reason="eager tasks came with Python 3.12")
async def test_handlers_run_as_eager_tasks(mq: Client, db: Db):
    await mq.create_queue("once", topic="orders", max_delivery_attempts=1)
    worker = Worker(mq)

    @worker.handler("once", concurrency=2)
    async def bill(message: Message[Any]) -> None:
        if message.payload % 2:
            await asyncio.sleep(0)
        if message.payload == 0:
            raise ValueError("none")

    await mq.publish_many("orders", list(range(2000)))
    loop = asyncio.get_running_loop()
    loop.set_task_factory(asyncio.eager_task_factory)  # type: ignore[attr-defined,unused-ignore]
    try:
        async with working(worker):
            await until(lambda: states(db, "once")["done"] == 1999)
            await until(lambda: states(db, "once")["dead"] == 1)
    finally:
        loop.set_task_factory(None)


async def test_a_handler_that_has_acked_its_message_may_go_on(mq: Client, db: Db):
    worker, ended = Worker(mq), list[str]()

    @worker.handler("billing", claim_for=timedelta(seconds=1))
    async def bill(message: Message[Any]) -> None:
        assert await message.ack()
        # Several heartbeats, and longer than the claim would have lasted.
        await asyncio.sleep(1.5)
        ended.append(message.payload)

    await mq.publish("orders", "acked early")
    async with working(worker):
        await until(lambda: ended == ["acked early"])
    assert worker.status().handlers[0].lost == 0
    assert states(db)["done"] == 1


async def test_a_handler_that_has_nacked_its_message_may_go_on_beside_the_next_attempt(
    mq: Client, db: Db
):
    worker, ended, again = Worker(mq), list[int](), asyncio.Event()

    @worker.handler("billing", concurrency=2)
    async def bill(message: Message[Any]) -> None:
        if message.attempt == 1:
            assert await message.nack(timedelta(0))
            await again.wait()
        again.set()
        ended.append(message.attempt)

    await mq.publish("orders", {})
    async with working(worker):
        await until(lambda: sorted(ended) == [1, 2])
        await until(lambda: states(db)["done"] == 1)
    assert worker.status().handlers[0].lost == 0


async def test_each_claim_has_a_token_of_its_own(mq: Client, db: Db):
    """So a nack that is repeated after a lost answer does not fail the next claim."""
    worker, tokens = Worker(mq), list[str]()

    @worker.handler("billing", concurrency=2)
    async def bill(message: Message[Any]) -> None:
        tokens.append(message.token)
        if message.attempt == 1:
            assert await message.nack(timedelta(0))
            return
        first = calls.nack("billing", message.id, tokens[0])
        assert await mq.run(first) is None

    await mq.publish("orders", {})
    async with working(worker):
        await until(lambda: states(db)["done"] == 1)
    assert len(set(tokens)) == 2
    assert len({token.rpartition("#")[0] for token in tokens}) == 1


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


@pytest.mark.parametrize("how", ["kind", "text", "traceback"])
async def test_what_the_log_says_of_a_failure_can_be_chosen(
    mq: Client, db: Db, caplog: pytest.LogCaptureFixture, how: str
):
    caplog.set_level(logging.DEBUG)
    worker = Worker(mq, log_errors=how)

    @worker.handler("billing")
    async def bill(message: Message[Any]) -> None:
        raise ValueError("the customer is gone")

    await mq.publish("orders", "hunter2")
    async with working(worker):
        await until(lambda: worker.status().failed == 1)
    assert "message 1 of 'billing' failed: ValueError" in caplog.text
    assert ("the customer is gone" in caplog.text) == (how != "kind")
    assert ("test_outcomes.py" in caplog.text) == (how != "kind")
    # Not the text: how a traceback is shown is up to the formatter of the process.
    told = [each for each in caplog.records if each.name == "penstock.worker"]
    assert any(each.exc_info for each in told) == (how == "traceback")
    assert "hunter2" not in caplog.text


def test_by_default_a_terminal_gets_tracebacks_and_a_log_the_text(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("PENSTOCK_LOG_ERRORS", raising=False)
    for terminal, level in ((True, "traceback"), (False, "text")):
        monkeypatch.setattr(sys, "stderr", SimpleNamespace(isatty=lambda told=terminal: told))
        assert FailureLog().level == level
    monkeypatch.setenv("PENSTOCK_LOG_ERRORS", "kind")
    assert FailureLog().level == "kind"
    with pytest.raises(InvalidSetting, match="'traceback', 'text', 'kind'"):
        FailureLog("everything")


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
