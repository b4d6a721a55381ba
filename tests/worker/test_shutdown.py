"""A stop in order: nothing new, what runs may finish, the rest goes back."""

from __future__ import annotations

import asyncio
import threading
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

import penstock
from penstock import Worker
from penstock.errors import InvalidSetting
from tests.worker.play import Heard, hearing, states, until, working

if TYPE_CHECKING:
    from collections.abc import Iterator

    import psycopg

    from penstock import Client, Message
    from penstock.models import ClaimedMessage
    from tests.fixtures.databases import Connect, Database

    Db = psycopg.Connection[Any]

MOMENT = timedelta(milliseconds=50)


@pytest.fixture
def heard() -> Iterator[Heard]:
    yield from hearing()


async def test_what_waits_is_released_and_what_runs_may_finish(mq: Client, db: Db, heard: Heard):
    worker, go_on = Worker(mq), asyncio.Event()

    @worker.handler("billing", concurrency=2, batch_size=5, prefetch=10)
    async def bill(message: Message[Any]) -> None:
        if message.payload != "quick":
            await go_on.wait()

    await mq.publish_many("orders", ["quick"] * 2)
    running = asyncio.create_task(worker.run(signals=False))
    await until(lambda: states(db)["done"] == 2)
    await mq.publish_many("orders", list(range(7)))
    await until(lambda: worker.status().handlers[0].waiting >= 3)
    worker.ask_to_stop()
    await until(lambda: heard.named("message.released"))
    assert worker.status().state == "stopping"
    # In one call or in several: a claim that was under way may bring more to release.
    await until(lambda: states(db)["claimed"] == 2)
    go_on.set()
    await running
    assert states(db) == {"pending": 5, "claimed": 0, "done": 4, "dead": 0}


async def test_after_the_deadline_handlers_are_cancelled_and_their_messages_released(
    mq: Client, db: Db
):
    worker, cleaned = Worker(mq, grace=MOMENT), []

    @worker.handler("billing")
    async def bill(message: Message[Any]) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cleaned.append(message.attempt)

    await mq.publish("orders", {})
    async with working(worker):
        await until(lambda: worker.status().running == 1)
    assert cleaned == [1]
    assert states(db) == {"pending": 1, "claimed": 0, "done": 0, "dead": 0}
    (again,) = await mq.claim("billing")
    assert again.attempt == 1


async def test_a_thread_that_does_not_end_is_left_and_its_message_released(mq: Client, db: Db):
    worker, go_on = Worker(mq, grace=MOMENT), threading.Event()

    @worker.handler("billing")
    def bill(message: ClaimedMessage) -> None:
        go_on.wait(timeout=20)

    await mq.publish("orders", {})
    async with working(worker):
        await until(lambda: worker.status().running == 1)
    go_on.set()
    assert states(db)["pending"] == 1


async def test_a_transaction_that_is_cut_off_is_rolled_back(mq: Client, db: Db):
    db.execute("create table ledger (message_id bigint)")
    worker, wrote = Worker(mq, grace=MOMENT), asyncio.Event()

    @worker.handler("billing", transactional=True)
    async def post(message: Message[Any], conn: Any) -> None:
        await conn.execute("insert into ledger values (%s)", (message.id,))
        wrote.set()
        await asyncio.Event().wait()

    await mq.publish("orders", {})
    async with working(worker):
        await wrote.wait()
    assert db.execute("select count(*) from ledger").fetchone() == (0,)
    assert states(db)["pending"] == 1


async def test_a_claim_under_way_is_waited_for_and_released(
    mq: Client, db: Db, connect: Connect, heard: Heard
):
    worker, handled = Worker(mq), []

    @worker.handler("billing", mode="poll")
    async def bill(message: Message[Any]) -> None:
        handled.append(message.id)

    await mq.publish("orders", {})
    blocker = connect(autocommit=False)
    blocker.execute("lock table penstock_data.positions in access exclusive mode")
    running = asyncio.create_task(worker.run(signals=False))
    await until(lambda: waiting_claims(db) == 1)
    worker.ask_to_stop()
    await until(lambda: heard.named("worker.stopping"))
    blocker.rollback()
    await running
    assert handled == []
    assert states(db) == {"pending": 1, "claimed": 0, "done": 0, "dead": 0}


def waiting_claims(db: Db) -> int:
    row = db.execute(
        "select count(*) from pg_stat_activity where wait_event_type = 'Lock' "
        "and datname = current_database() and query like '%consume_messages_batch%'"
    ).fetchone()
    assert row is not None
    return int(row[0])


async def test_stopping_at_once_waits_for_nobody(mq: Client, db: Db):
    worker = Worker(mq, grace=timedelta(hours=1))

    @worker.handler("billing")
    async def bill(message: Message[Any]) -> None:
        await asyncio.Event().wait()

    await mq.publish("orders", {})
    running = asyncio.create_task(worker.run(signals=False))
    await until(lambda: worker.status().running == 1)
    await worker.stop(at_once=True)
    await running
    # Its claim ends by itself.
    assert states(db)["claimed"] == 1


async def test_a_cancelled_run_leaves_nothing_behind(mq: Client, db: Db):
    worker = Worker(mq)

    @worker.handler("billing")
    async def bill(message: Message[Any]) -> None:
        await asyncio.Event().wait()

    await mq.publish("orders", {})
    running = asyncio.create_task(worker.run(signals=False))
    await until(lambda: worker.status().running == 1)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert {task.get_name() for task in asyncio.all_tasks()} & {"penstock upkeep"} == set()


async def test_a_worker_opens_its_client_and_closes_what_it_opened(database: Database, db: Db):
    db.execute("select penstock.create_queue('billing', 'orders')")
    client = penstock.connect(database.dsn)
    worker = Worker(client)

    @worker.handler("billing")
    async def bill(message: Message[Any]) -> None: ...

    async with working(worker):
        await until(lambda: worker.status().healthy)
    assert not client.database.is_open


async def test_a_worker_runs_once_and_only_with_something_to_do(mq: Client):
    with pytest.raises(InvalidSetting, match="nothing to do"):
        await Worker(mq).run()
    worker = Worker(mq)
    worker.handler("billing")(print)
    async with working(worker):
        await until(lambda: worker.status().state == "running")
    with pytest.raises(InvalidSetting, match="runs once"):
        await worker.run()
    with pytest.raises(InvalidSetting, match="before the worker runs"):
        worker.handler("other")(print)
