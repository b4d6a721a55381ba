"""Claims are kept alive while a handler runs; one that is lost takes its handler with it."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from penstock import Worker
from penstock.client import calls
from penstock.models import ClaimedMessage, MessageId
from penstock.worker.invoke import Claim, Stage
from penstock.worker.runner import review
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


async def test_a_worker_that_claims_its_own_message_again_cancels_the_first_handler(
    mq: Client, db: Db
):
    worker, ends = Worker(mq), []

    # The claim is far from its end as far as the worker knows, so nothing is reviewed meanwhile.
    @worker.handler(
        "billing",
        concurrency=2,
        claim_for=timedelta(hours=1),
        polling_interval=timedelta(milliseconds=20),
        max_polling_interval=timedelta(milliseconds=20),
        mode="poll",
    )
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
        clock.advance(db, seconds=3700)
        await until(lambda: ends == [1])
        await until(lambda: states(db)["done"] == 1)


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


async def test_a_review_moves_the_ends_of_what_is_kept_and_tells_what_is_not(mq: Client, db: Db):
    await mq.publish_many("orders", ["ours", "taken", "settling", "finished"])
    worker = Worker(mq)

    @worker.handler("billing")
    async def bill(message: Message[Any]) -> None: ...

    [runner] = worker.runners()
    found = await runner.source.claim(4, list(runner.slots.values()))
    ours, taken, settling, finished = found.claims
    runner.claims.update({each.id: each for each in found.claims})
    for each in (taken, settling, finished):
        assert await mq.run(calls.ack("billing", each.id, each.token))
    now = time.monotonic()
    for each in found.claims:
        each.ends_at = now + 10
    settling.stage = Stage.SETTLING
    finished.finished = True
    await runner.heartbeat.once()
    # What is being settled may just have been, so its own answer tells; the handler that has
    # finished its message itself goes on.
    assert taken.lost
    assert list(runner.claims.values()) == [ours, settling, finished]
    assert ours.ends_at == now + 25
    assert taken.ends_at == now + 10


# Pure


def held(ends_at: float) -> Claim:
    moment = datetime(2030, 1, 1, tzinfo=UTC)
    record = ClaimedMessage(MessageId(1), None, None, None, 0, 1, moment, moment, None, None)
    return Claim(record, "me", ends_at, None)  # type: ignore[arg-type]


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
