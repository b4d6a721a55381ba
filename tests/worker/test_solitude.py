"""What may have killed its worker has its last attempt with nothing else at hand."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from penstock import Worker
from tests.worker.play import states, until, working

if TYPE_CHECKING:
    import psycopg

    from penstock import Client, Message

    Db = psycopg.Connection[Any]

SOON = timedelta(milliseconds=100)


@pytest.fixture
async def mq(mq: Client) -> Client:
    await mq.create_queue("risky", topic="jobs", max_delivery_attempts=2)
    return mq


def suspect(db: Db, count: int = 1) -> None:
    """Messages that a consumer took, and never was heard of again."""
    db.execute(
        "select penstock.publish_messages('jobs', "
        "array(select to_jsonb('suspect ' || n) from generate_series(1, %s) n))",
        (count,),
    )
    db.execute("select * from penstock.consume_messages_batch('risky', 'dead', 30, 100)")
    db.execute("select penstock.advance_clock(interval '31 seconds')")


class Room:
    """Who was in the worker together."""

    def __init__(self) -> None:
        self.inside: set[Any] = set()
        self.met: dict[Any, set[Any]] = {}

    async def __call__(self, message: Message[Any]) -> None:
        self.inside.add(message.payload)
        for each in self.inside:
            self.met.setdefault(each, set()).update(self.inside - {each})
        await asyncio.sleep(0.02)
        self.inside.discard(message.payload)


async def test_suspects_are_tried_one_by_one(mq: Client, db: Db):
    worker, room = Worker(mq), Room()
    suspect(db, 5)
    await mq.publish_many("jobs", list(range(20)))
    worker.handler("risky", concurrency=8, polling_interval=SOON)(room)
    async with working(worker):
        await until(lambda: states(db, "risky")["done"] == 25)
    suspects = {f"suspect {number}" for number in range(1, 6)}
    assert not any(room.met[each] for each in suspects)
    # The others were not.
    assert any(room.met[number] for number in range(20))


async def test_nothing_else_is_claimed_by_the_process_meanwhile(mq: Client, db: Db):
    worker, go_on, begun = Worker(mq), asyncio.Event(), asyncio.Event()
    suspect(db)

    @worker.handler("risky", concurrency=4, polling_interval=SOON)
    async def risk(message: Message[Any]) -> None:
        begun.set()
        await go_on.wait()

    @worker.handler("billing", concurrency=4, polling_interval=SOON)
    async def bill(message: Message[Any]) -> None: ...

    async with working(worker):
        await begun.wait()
        await mq.publish("orders", 1)
        await mq.publish("jobs", "another")
        await asyncio.sleep(0.5)
        assert states(db)["pending"] == 1
        assert states(db, "risky") == {"pending": 1, "claimed": 1, "done": 0, "dead": 0}
        go_on.set()
        await until(lambda: states(db)["done"] == 1)
        await until(lambda: states(db, "risky")["done"] == 2)


async def test_a_handler_that_runs_on_and_on_does_not_keep_a_suspect_waiting_for_ever(
    mq: Client, db: Db
):
    worker, go_on, seen = Worker(mq), asyncio.Event(), list[Any]()

    # Longer than the clock is set forward.
    @worker.handler("billing", claim_for=timedelta(minutes=5))
    async def bill(message: Message[Any]) -> None:
        seen.append(message.payload)
        await go_on.wait()

    @worker.handler("risky", claim_for=timedelta(seconds=1), polling_interval=SOON)
    async def risk(message: Message[Any]) -> None:
        seen.append(message.payload)

    await mq.publish("orders", "slow")
    async with working(worker):
        await until(lambda: seen == ["slow"])
        suspect(db)
        await until(lambda: states(db, "risky")["done"] == 1)
        assert seen == ["slow", "suspect 1"]
        go_on.set()


async def test_a_worker_that_stops_gives_a_suspect_back(mq: Client, db: Db):
    worker, go_on, begun = Worker(mq), asyncio.Event(), asyncio.Event()

    # Longer than the clock is set forward.
    @worker.handler("billing", claim_for=timedelta(minutes=5))
    async def bill(message: Message[Any]) -> None:
        begun.set()
        await go_on.wait()

    @worker.handler("risky", polling_interval=SOON)
    async def risk(message: Message[Any]) -> None: ...

    await mq.publish("orders", "slow")
    async with working(worker):
        await begun.wait()
        suspect(db)
        await until(lambda: worker.status().handlers[1].held == 1)
        worker.ask_to_stop()
        await until(lambda: states(db, "risky")["pending"] == 1)
        go_on.set()
    assert states(db, "risky") == {"pending": 1, "claimed": 0, "done": 0, "dead": 0}
    [found] = await mq.claim("risky")
    assert found.attempt == 2
