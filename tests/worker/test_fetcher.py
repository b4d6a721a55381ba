"""Workers hear of messages in every mode, and nothing that happens to the database ends them."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

import penstock
from penstock import Retry, Worker
from penstock.errors import WorkerGaveUp
from tests.worker.play import Heard, hearing, states, terminate_others, until, working

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock import Client, Message
    from tests.fixtures.databases import Database

    Db = psycopg.Connection[Any]

SOON = timedelta(milliseconds=20)
LONG_IDLE = 50


@pytest.fixture
def heard() -> Iterator[Heard]:
    yield from hearing()


@pytest.mark.parametrize("mode", ["hybrid", "listen", "poll"])
async def test_every_mode_finds_what_was_there_and_what_comes(mq: Client, db: Db, mode: str):
    worker = Worker(mq)

    @worker.handler("billing", mode=mode, polling_interval=SOON)
    async def bill(message: Message[Any]) -> None: ...

    await mq.publish("orders", "before")
    async with working(worker):
        await until(lambda: states(db)["done"] == 1)
        await mq.publish("orders", "after")
        await until(lambda: states(db)["done"] == 2)


@pytest.mark.parametrize("mode", ["hybrid", "listen"])
async def test_a_sleeping_worker_is_woken_long_before_it_would_look(mq: Client, db: Db, mode: str):
    worker = Worker(mq)
    hour = timedelta(hours=1)

    @worker.handler(
        "billing", mode=mode, claim_for=2 * hour, polling_interval=hour, max_polling_interval=hour
    )
    async def bill(message: Message[Any]) -> None: ...

    async with working(worker):
        await lies_down(worker)
        await mq.publish("orders", {})
        await until(lambda: states(db)["done"] == 1)


@pytest.mark.parametrize("mode", ["hybrid", "listen"])
async def test_a_message_committed_after_the_worker_lay_down_is_found(
    mq: Client, db: Db, database: Database, mode: str
):
    """Its publisher saw nobody waiting, so it notifies nobody."""
    worker = Worker(mq)
    hour = timedelta(hours=1)

    @worker.handler(
        "billing", mode=mode, claim_for=2 * hour, polling_interval=hour, max_polling_interval=hour
    )
    async def bill(message: Message[Any]) -> None: ...

    with psycopg.connect(database.dsn) as publisher:
        publisher.execute("select penstock.publish_message('orders', '1')")
        async with working(worker):
            await until(lambda: worker._runners)
            # Without a doubt it would sleep after the second look.
            await until(lambda: worker._runners[0].source.idle_looks > 3)
            publisher.commit()
            await until(lambda: states(db)["done"] == 1)


async def lies_down(worker: Worker) -> None:
    """Return when it has looked in vain, and sleeps for longer than a test waits."""
    await until(lambda: worker._runners)
    await until(lambda: worker._runners[0].source.idle_looks > 1)


async def test_a_retry_is_met_when_it_is_due(mq: Client, db: Db):
    """Also when the worker lay down for long before the database heard of the retry."""
    worker = Worker(mq)
    hour = timedelta(hours=1)

    @worker.handler(
        "billing", concurrency=2, claim_for=2 * hour, polling_interval=hour, mode="poll"
    )
    async def bill(message: Message[Any]) -> None:
        if message.attempt == 1:
            # The other slot is free, so it looks, and sleeps for an hour.
            await until(lambda: worker._runners[0].source.idle_looks > 1)
            raise Retry(timedelta(seconds=1))

    await mq.publish("orders", {})
    async with working(worker):
        await until(lambda: states(db)["done"] == 1)


async def test_the_next_message_of_a_key_follows_as_soon_as_the_one_before_is_done(
    mq: Client, db: Db
):
    await mq.create_queue("in-order", topic="orders", ordering=penstock.Ordering.FIFO)
    worker, got = Worker(mq), []
    hour = timedelta(hours=1)

    @worker.handler("in-order", concurrency=4, mode="poll", claim_for=hour, polling_interval=hour)
    async def bill(message: Message[Any]) -> None:
        got.append(message.payload)
        # The other slots are free, so it looks in vain, and sleeps for longer than a test waits.
        source = worker._runners[0].source
        await until(lambda: source.idle_looks > 0)
        source.idle_looks = LONG_IDLE
        await until(lambda: source.idle_looks > LONG_IDLE)

    await mq.publish_many("orders", list(range(3)), keys="one key")
    async with working(worker):
        await until(lambda: states(db, "in-order")["done"] == 3)
    assert got == [0, 1, 2]


async def test_a_queue_that_does_not_exist_yet_is_waited_for(mq: Client, db: Db, heard: Heard):
    worker = Worker(mq)

    @worker.handler("later", queue_error_retry_interval=SOON)
    async def bill(message: Message[Any]) -> None: ...

    async with working(worker):
        await until(lambda: worker.status().handlers and worker.status().handlers[0].trouble)
        assert not worker.status().healthy
        await mq.create_queue("later", topic="orders")
        await mq.publish("orders", {})
        await until(lambda: states(db, "later")["done"] == 1)
        assert worker.status().healthy
    assert heard.named("call.failed")[0].error_kind == "UnknownQueue"


async def test_a_queue_that_is_deleted_and_made_again_is_served_again(mq: Client, db: Db):
    worker = Worker(mq)

    @worker.handler("billing", queue_error_retry_interval=SOON, polling_interval=SOON)
    async def bill(message: Message[Any]) -> None: ...

    async with working(worker):
        await until(lambda: worker.status().healthy)
        await mq.delete_queue("billing")
        await until(lambda: not worker.status().healthy)
        await mq.create_queue("billing", topic="orders")
        await mq.publish("orders", {})
        await until(lambda: states(db)["done"] == 1)


async def test_max_queue_retries_ends_a_worker_that_can_not_read_its_queue(mq: Client, db: Db):
    worker, handled = Worker(mq), asyncio.Event()

    @worker.handler("nowhere", max_queue_retries=3, queue_error_retry_interval=SOON)
    async def never(message: Message[Any]) -> None: ...

    @worker.handler("billing")
    async def bill(message: Message[Any]) -> None:
        # Runs when the other gives up, and may finish.
        await until(lambda: worker.status().state == "stopping")
        handled.set()

    await mq.publish("orders", {})
    with pytest.raises(WorkerGaveUp, match="'nowhere' could not be read 4 times in a row"):
        await worker.run(signals=False)
    assert handled.is_set()
    assert states(db)["done"] == 1


async def test_a_look_that_takes_too_long_counts_as_failed(mq: Client, db: Db, connect: Any):
    worker = Worker(mq)
    blocker = connect(autocommit=False)
    blocker.execute("lock table penstock_data.positions in access exclusive mode")

    @worker.handler(
        "billing", mode="poll", max_queue_retries=0, queue_timeout=timedelta(milliseconds=50)
    )
    async def bill(message: Message[Any]) -> None: ...

    with pytest.raises(WorkerGaveUp, match="could not be read 1 times"):
        await worker.run(signals=False)
    blocker.rollback()


@pytest.mark.parametrize("mode", ["hybrid", "listen", "poll"])
async def test_no_message_is_lost_when_every_session_is_terminated_again_and_again(
    mq: Client, db: Db, mode: str
):
    await mq.create_queue("patient", topic="orders", max_delivery_attempts=0)
    worker, got = Worker(mq), set()

    @worker.handler("patient", mode=mode, concurrency=5, polling_interval=SOON)
    async def bill(message: Message[Any]) -> None:
        got.add(message.payload)

    db.execute(
        "select penstock.publish_messages('orders', "
        "array(select to_jsonb(n) from generate_series(1, 300) n))"
    )
    async with working(worker):
        for share in range(1, 6):
            await until(lambda share=share: len(got) >= 50 * share)
            terminate_others(db)
        await until(lambda: len(got) == 300)
        # A claim whose answer was lost with its session ends by itself.
        while states(db, "patient")["done"] < 300:
            if worker.status().handlers[0].held == 0 and states(db, "patient")["claimed"]:
                db.execute("select penstock.advance_clock(interval '31 seconds')")
            await asyncio.sleep(0.05)
    assert worker.status().state == "stopped"


async def test_a_worker_may_start_before_its_database(database: Database, db: Db, heard: Heard):
    db.execute("select penstock.create_queue('billing', 'orders')")
    db.execute("select penstock.publish_message('orders', '1')")
    database.server.administer(f"alter database {database.name} allow_connections false")
    worker = Worker(penstock.connect(database.dsn))

    @worker.handler("billing")
    async def bill(message: Message[Any]) -> None: ...

    async with working(worker):
        await until(lambda: heard.named("call.failed"))
        database.server.administer(f"alter database {database.name} allow_connections true")
        await until(lambda: states(db)["done"] == 1)


async def test_a_worker_that_waits_for_its_database_can_be_stopped(heard: Heard):
    worker = Worker(penstock.connect("postgresql://localhost:1/nowhere"))

    @worker.handler("billing")
    async def bill(message: Message[Any]) -> None: ...

    async with working(worker):
        await until(lambda: heard.named("call.failed"))
    assert worker.status().state == "stopped"
