"""What may have killed its worker has its last attempt with nothing else at hand."""

from __future__ import annotations

import asyncio
import signal
import sys
from asyncio.subprocess import PIPE
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from penstock import Worker
from tests.fixtures.clock import advance
from tests.worker.play import PATIENCE_SECONDS, states, until, working

if TYPE_CHECKING:
    from asyncio.subprocess import Process
    from collections.abc import AsyncIterator

    import psycopg

    from penstock import Client, Message
    from tests.fixtures.databases import Database

    Db = psycopg.Connection[Any]

SOON = timedelta(milliseconds=100)


@pytest.fixture
async def mq(mq: Client) -> Client:
    await mq.create_queue("risky", topic="jobs", max_delivery_attempts=2)
    return mq


def suspect(db: Db, count: int = 1) -> None:
    """Messages that a consumer took, and never was heard of again."""
    claimed_once(db, count)
    advance(db, seconds=31)


def claimed_once(db: Db, count: int = 1) -> None:
    """Messages that a consumer holds, and will not answer for."""
    db.execute(
        "select penstock.publish_messages('jobs', "
        "array(select to_jsonb('suspect ' || n) from generate_series(1, %s) n))",
        (count,),
    )
    db.execute("select * from penstock.consume_messages_batch('risky', 'dead', 30, 100)")


@asynccontextmanager
async def fatal_worker(database: Database) -> AsyncIterator[Process]:
    """A worker in a process of its own, which messages kill."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.worker.fatal", database.dsn, stdout=PIPE
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def begun(process: Process) -> None:
    """Return when the handler of "billing" has begun."""
    assert process.stdout is not None
    async with asyncio.timeout(PATIENCE_SECONDS):
        assert await process.stdout.readline() == b"begun\n"


async def killed(process: Process) -> bool:
    """Wait for the end of the process; False: it ended in another way."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        return await process.wait() == -signal.SIGKILL


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

    claimed_once(db)
    await mq.publish("orders", "slow")
    async with working(worker):
        await until(lambda: seen == ["slow"])
        advance(db, seconds=31)
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

    claimed_once(db)
    await mq.publish("orders", "slow")
    async with working(worker):
        await begun.wait()
        advance(db, seconds=31)
        await until(lambda: worker.status().handlers[1].held == 1)
        worker.ask_to_stop()
        await until(lambda: states(db, "risky")["pending"] == 1)
        go_on.set()
    assert states(db, "risky") == {"pending": 1, "claimed": 0, "done": 0, "dead": 0}
    [found] = await mq.claim("risky")
    assert found.attempt == 2


async def test_an_attempt_that_did_not_begin_is_not_counted(mq: Client, db: Db, database: Database):
    """The worker dies of another message while the suspect waits to be alone."""
    claimed_once(db)
    await mq.publish("orders", "poison")
    async with fatal_worker(database) as process:
        await begun(process)
        advance(db, seconds=31)
        assert await killed(process)
    assert states(db, "risky")["claimed"] == 1
    advance(db, seconds=31)
    worker, seen = Worker(mq), list[tuple[Any, int]]()

    @worker.handler("risky", polling_interval=SOON)
    async def risk(message: Message[Any]) -> None:
        seen.append((message.payload, message.attempt))

    async with working(worker):
        await until(lambda: states(db, "risky")["done"] + states(db, "risky")["dead"] == 1)
    assert states(db, "risky") == {"pending": 0, "claimed": 0, "done": 1, "dead": 0}
    assert seen == [("suspect 1", 2)]


async def test_a_suspect_that_kills_is_dead_after_its_last_attempt(
    mq: Client, db: Db, database: Database
):
    await mq.publish("jobs", "poison")
    for _ in range(2):
        async with fatal_worker(database) as process:
            assert await killed(process)
        assert states(db, "risky") == {"pending": 0, "claimed": 1, "done": 0, "dead": 0}
        advance(db, seconds=31)
    assert await mq.claim("risky") == []
    [letter] = await mq.dead_letters("risky")
    assert letter.attempts == 2


async def test_a_suspect_that_is_not_held_any_more_is_not_begun(mq: Client, db: Db):
    worker, go_on, begun, seen = Worker(mq), asyncio.Event(), asyncio.Event(), list[Any]()

    # Longer than the clock is set forward.
    @worker.handler("billing", claim_for=timedelta(minutes=5))
    async def bill(message: Message[Any]) -> None:
        begun.set()
        await go_on.wait()

    @worker.handler("risky", polling_interval=SOON)
    async def risk(message: Message[Any]) -> None:
        seen.append(message.payload)

    claimed_once(db)
    await mq.publish("orders", "slow")
    async with working(worker):
        await begun.wait()
        advance(db, seconds=31)
        await until(lambda: worker.status().handlers[1].held == 1)
        db.execute(
            "select penstock.ack_message('risky', message_ids[1], token) from penstock_data.claims "
            "where attempts = '{2}'"
        )
        go_on.set()
        await until(lambda: worker.status().handlers[1].lost == 1)
        # The worker goes on.
        await mq.publish("jobs", "next")
        await until(lambda: seen == ["next"])


async def test_a_suspect_goes_back_when_the_database_refuses_to_begin_its_attempt(
    mq: Client, db: Db
):
    worker, seen = Worker(mq), list[tuple[Any, int]]()

    @worker.handler("risky", polling_interval=SOON)
    async def risk(message: Message[Any]) -> None:
        seen.append((message.payload, message.attempt))

    suspect(db)
    db.execute("alter function penstock.begin_attempt(text, bigint, text) rename to away")
    async with working(worker):
        await until(lambda: any(each.released for each in worker.status().handlers))
        assert seen == []
        db.execute("alter function penstock.away(text, bigint, text) rename to begin_attempt")
        await until(lambda: states(db, "risky")["done"] == 1)
    assert seen == [("suspect 1", 2)]
