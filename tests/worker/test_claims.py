"""Claims are kept alive while a handler runs; one that is lost takes its handler with it."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from penstock import Worker
from penstock.models import ClaimedMessage, MessageId
from penstock.worker.claims import Held, review
from tests.fixtures import clock
from tests.worker.play import Heard, hearing, states, until, working

if TYPE_CHECKING:
    from collections.abc import Iterator

    import psycopg

    from penstock import Client, Message

    Db = psycopg.Connection[Any]

SECOND = timedelta(seconds=1)


@pytest.fixture
def heard() -> Iterator[Heard]:
    yield from hearing()


async def test_a_handler_that_outlasts_its_claim_keeps_it(mq: Client, db: Db, heard: Heard):
    worker, go_on = Worker(mq), asyncio.Event()

    @worker.handler("billing", claim_for=SECOND)
    async def bill(message: Message[Any]) -> None:
        await go_on.wait()

    await mq.publish("orders", {})
    async with working(worker):
        await until(lambda: len(heard.named("claim.extended")) >= 3)
        go_on.set()
        await until(lambda: states(db)["done"] == 1)
    assert heard.named("claim.lost") == []
    assert worker.status().handlers[0].claimed == 1


async def test_a_lost_claim_cancels_its_handler_and_the_message_is_handled_again(
    mq: Client, db: Db, heard: Heard
):
    worker, ends = Worker(mq), []

    @worker.handler("billing", claim_for=SECOND, polling_interval=timedelta(milliseconds=20))
    async def bill(message: Message[Any]) -> None:
        if message.attempt > 1:
            return
        try:
            await asyncio.Event().wait()
        finally:
            ends.append(message.attempt)

    await mq.publish("orders", {})
    async with working(worker):
        await until(lambda: worker.status().running == 1)
        clock.advance(db, seconds=60)
        await until(lambda: states(db)["done"] == 1)
        await until(lambda: ends == [1])
    assert len(heard.named("claim.lost")) == 1
    assert worker.status().handlers[0].acked == 1


async def test_the_ack_of_a_handler_that_ignores_its_cancellation_is_refused(
    mq: Client, db: Db, heard: Heard
):
    worker, go_on = Worker(mq), asyncio.Event()

    @worker.handler("billing", claim_for=SECOND)
    async def bill(message: Message[Any]) -> None:
        while not go_on.is_set():
            try:
                await go_on.wait()
            except asyncio.CancelledError:
                continue

    await mq.publish("orders", {})
    async with working(worker):
        await until(lambda: worker.status().running == 1)
        # Somebody else holds the message from here on.
        clock.advance(db, seconds=60)
        taken = db.execute("select message_id from penstock.consume_message('billing', 'me', 3600)")
        assert taken.fetchone() is not None
        await until(lambda: heard.named("claim.lost"))
        go_on.set()
        await until(lambda: worker.status().running == 0)
    assert states(db)["claimed"] == 1
    assert states(db)["done"] == 0


async def test_an_ack_that_comes_too_late_is_refused(mq: Client, db: Db, heard: Heard):
    worker, go_on = Worker(mq), asyncio.Event()

    @worker.handler("billing")
    async def bill(message: Message[Any]) -> None:
        await go_on.wait()

    await mq.publish("orders", {})
    async with working(worker):
        await until(lambda: worker.status().running == 1)
        clock.advance(db, seconds=60)
        db.execute("select penstock.consume_message('billing', 'me', 3600)")
        go_on.set()
        await until(lambda: heard.named("claim.lost"))
    assert states(db)["claimed"] == 1
    assert worker.status().acked == 0


async def test_a_lost_claim_rolls_back_what_a_transactional_handler_wrote(
    mq: Client, db: Db, heard: Heard
):
    db.execute("create table ledger (message_id bigint)")
    worker, go_on = Worker(mq), asyncio.Event()

    @worker.handler("billing", transactional=True)
    async def post(message: Message[Any], conn: Any) -> None:
        await conn.execute("insert into ledger values (%s)", (message.id,))
        await go_on.wait()

    await mq.publish("orders", {})
    async with working(worker):
        await until(lambda: worker.status().running == 1)
        clock.advance(db, seconds=60)
        db.execute("select penstock.consume_message('billing', 'me', 3600)")
        go_on.set()
        await until(lambda: heard.named("claim.lost"))
        await until(lambda: worker.status().running == 0)
    assert db.execute("select count(*) from ledger").fetchone() == (0,)
    assert states(db)["claimed"] == 1


# Pure


def held(ends_at: float) -> Held:
    moment = datetime(2030, 1, 1, tzinfo=UTC)
    return Held(
        ClaimedMessage(MessageId(1), None, None, None, 0, 1, moment, moment, None, None), ends_at
    )


def test_a_review_extends_what_has_less_than_half_its_time_left():
    fresh, half, late = held(130.0), held(115.0), held(100.1)
    found = review([fresh, half, late], now=100.0, claim_for=30.0)
    assert found.extend == [half, late]
    assert found.lost == []


def test_a_claim_that_ended_without_an_answer_is_lost():
    over, just_over = held(99.0), held(100.0)
    found = review([over, just_over], now=100.0, claim_for=30.0)
    assert found.lost == [over, just_over]
    assert found.extend == []
