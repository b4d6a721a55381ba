"""Whole workers where sessions are shared, and while their server goes away and comes back."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

import penstock
from penstock import Retry, Worker
from penstock.observe.events import Name
from prove.servers import mortal
from tests.worker.play import Heard, dead_letters, hearing, states, until, working

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock import Message
    from tests.fixtures.databases import Database
    from tests.fixtures.pgbouncer import Pgbouncer

    Db = psycopg.Connection[Any]


@pytest.fixture
def heard() -> Iterator[Heard]:
    yield from hearing()


SOON = timedelta(milliseconds=20)
COUNT = 20


async def test_a_worker_behind_pgbouncer_handles_retries_and_commits_with_its_handlers(
    pgbouncer: Pgbouncer, database: Database, db: Db
):
    db.execute("create table ledger (number int primary key)")
    async with penstock.connect(pgbouncer.dsn(database.name), pooler=True) as mq:
        for queue in ("billing", "ledger"):
            await mq.create_queue(queue, topic="orders", max_delivery_attempts=2)
        worker = Worker(mq)

        @worker.handler("billing", concurrency=5, polling_interval=SOON)
        async def bill(message: Message[int]) -> None:
            if message.payload == 0:
                raise Retry(timedelta(0), "never")

        @worker.handler("ledger", concurrency=5, polling_interval=SOON, transactional=True)
        async def post(message: Message[int], connection: psycopg.AsyncConnection[Any]) -> None:
            await connection.execute("insert into ledger values (%s)", (message.payload,))

        await mq.publish_many("orders", list(range(COUNT)))
        async with working(worker):
            await until(lambda: states(db)["done"] == COUNT - 1)
            await until(lambda: states(db)["dead"] == 1)
            await until(lambda: states(db, "ledger")["done"] == COUNT)
            # What comes while it is idle is found as well.
            await mq.publish("orders", COUNT)
            await until(lambda: states(db, "ledger")["done"] == COUNT + 1)
    assert dead_letters(db) == ["never"]
    assert db.execute("select count(*) from ledger").fetchone() == (COUNT + 1,)


async def test_a_worker_goes_on_when_its_server_was_killed_and_is_back(heard: Heard):
    with mortal() as server:
        async with penstock.connect(server.dsn()) as mq:
            await mq.create_queue("billing", topic="orders")
            worker, got = Worker(mq), set[int]()

            @worker.handler("billing", concurrency=5)
            async def bill(message: Message[int]) -> None:
                got.add(message.payload)

            await mq.publish_many("orders", list(range(COUNT)))
            async with working(worker):
                await until(lambda: len(got) == COUNT)
                await asyncio.to_thread(server.kill)
                await until(lambda: heard.named(Name.LISTENER_LOST))
                await asyncio.to_thread(server.start)
                later = list(range(COUNT, 2 * COUNT))
                await mq.publish_many("orders", later, dedupe_keys=[str(each) for each in later])
                await until(lambda: len(got) == 2 * COUNT)
                await until(lambda: worker.status().healthy)


async def test_a_worker_needs_no_more_than_one_connection_of_a_server_that_is_full():
    """Its claims share the connection of its acks; else it would keep one and wait for another."""
    with (
        mortal(max_connections="8", superuser_reserved_connections="0") as server,
        psycopg.connect(server.dsn(), autocommit=True) as db,
    ):
        db.execute("select penstock.create_queue('billing', 'orders')")
        db.execute("select penstock.publish_messages('orders', array['1', '2', '3']::jsonb[])")
        mq = penstock.connect(server.dsn())
        await mq.open()
        # All but one.
        others = [await psycopg.AsyncConnection.connect(server.dsn()) for _ in range(6)]
        worker = Worker(mq)

        @worker.handler("billing", concurrency=2, polling_interval=SOON)
        async def bill(message: Message[Any]) -> None: ...

        async with working(worker):
            await until(lambda: states(db)["done"] == 3)
            for each in others:
                await each.close()
            db.execute("select penstock.publish_message('orders', '4')")
            await until(lambda: states(db)["done"] == 4)
        await mq.close()
