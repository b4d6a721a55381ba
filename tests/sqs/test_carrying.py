"""Batches over the door's own connections: what goes wrong there, and whom it concerns."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from penstock.client._async.client import Client
from penstock.errors import CallTimeout, EngineError, OutcomeUnknown
from penstock.settings import Settings
from penstock.sqs.carrying import Carrier
from penstock.sqs.gather import Ask, Job
from penstock.sqs.names import QueueId
from penstock.sqs.service import Service
from tests.fixtures.patience import eventually_async

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

CONTEXT = b'{"account": "000000000000", "region": "us-east-1"}'
FIFO = b'{"MessageBody": "x", "MessageGroupId": "g", "MessageDeduplicationId": "1"}'
PLAIN = b'{"MessageBody": "x"}'


@pytest.fixture
async def client(fresh_dsn: str) -> AsyncIterator[Client]:
    with psycopg.connect(fresh_dsn) as conn:
        for name, attributes in (("q", "{}"), ("r", "{}"), ("q.fifo", '{"FifoQueue": "true"}')):
            conn.execute(
                "select pgqs.invoke('CreateQueue', jsonb_build_object("
                "'QueueName', %s::text, 'Attributes', %s::text::jsonb))",
                (name, attributes),
            )
    async with Client(Settings(dsn=fresh_dsn)) as found:
        yield found


@pytest.fixture
async def carrier(client: Client) -> AsyncIterator[Carrier]:
    made = Carrier(client.database, durable=True)
    yield made
    await made.close()


def _job(request: bytes = PLAIN, queue: str = "q", action: str = "SendMessage") -> Job:
    return Job(action, queue, Ask(request, CONTEXT), asyncio.get_running_loop().create_future())


async def _outcome(job: Job) -> Any:
    [found] = await asyncio.gather(job.answer, return_exceptions=True)
    return found


async def test_actions_and_queues_travel_together_and_each_is_answered(carrier: Carrier) -> None:
    jobs = [_job(), _job(queue="r"), _job(queue="nowhere"), _job(action="DeleteMessage"), _job()]
    await carrier.run(jobs)
    found = [(await job.answer)[:12] for job in jobs]
    assert found == [
        b'{"MessageId"',
        b'{"MessageId"',
        b'{"__error": ',
        b'{"__error": ',
        b'{"MessageId"',
    ]


async def test_one_bad_request_does_not_spoil_its_neighbours(carrier: Carrier) -> None:
    jobs = [_job(), _job(b"{"), _job(), _job(b"{}", "r")]
    await carrier.run(jobs)
    first, bad, third, other = [await _outcome(job) for job in jobs]
    assert b"MessageId" in first
    assert b"MessageId" in third
    assert isinstance(bad, EngineError)
    assert b"MissingParameter" in other
    # What was refused as a whole was not sent twice.
    assert await _waiting(carrier) == 2


async def _waiting(carrier: Carrier) -> int:
    job = _job(b'{"MaxNumberOfMessages": 10}', action="ReceiveMessage")
    await carrier.run([job])
    return (await job.answer).count(b"MD5OfBody")


async def test_a_connection_that_broke_meanwhile_is_replaced(
    carrier: Carrier, fresh_dsn: str
) -> None:
    await carrier.run([_job()])
    [pipe] = carrier._idle
    _terminate(fresh_dsn, pipe.backend_pid)
    await eventually_async(lambda: pipe.broken)
    job = _job()
    await carrier.run([job])
    assert b"MessageId" in await job.answer


def _terminate(dsn: str, pid: int) -> None:
    with psycopg.connect(dsn) as conn:
        conn.execute("select pg_terminate_backend(%s)", (pid,))


@pytest.fixture
async def stuck(fresh_dsn: str, client: Client) -> AsyncIterator[psycopg.AsyncConnection[Any]]:
    """A transaction that holds up whoever sends to q.fifo."""
    async with await psycopg.AsyncConnection.connect(fresh_dsn) as conn:
        await conn.execute(
            'select pgqs.invoke(\'SendMessage\', \'{"QueueUrl": "q.fifo", "MessageBody": "a",'
            ' "MessageGroupId": "g", "MessageDeduplicationId": "a"}\')'
        )
        yield conn
        await conn.rollback()


async def _blocked(dsn: str) -> int:
    async with await psycopg.AsyncConnection.connect(dsn) as conn:
        while True:
            cursor = await conn.execute(
                "select pid from pg_stat_activity"
                " where wait_event_type = 'Lock' and datname = current_database()"
            )
            if row := await cursor.fetchone():
                return int(row[0])
            await conn.rollback()


@pytest.mark.usefixtures("stuck")
async def test_a_send_whose_connection_breaks_is_not_sent_again(
    carrier: Carrier, fresh_dsn: str
) -> None:
    job = _job(FIFO, "q.fifo")
    running = asyncio.create_task(carrier.run([job]))
    _terminate(fresh_dsn, await _blocked(fresh_dsn))
    await running
    assert isinstance(await _outcome(job), OutcomeUnknown)


async def test_a_queue_that_waits_for_a_lock_holds_up_no_other(
    client: Client, fresh_dsn: str, stuck: psycopg.AsyncConnection[Any]
) -> None:
    service = Service(client.database)

    async def send(name: str, request: bytes) -> bytes:
        queue = QueueId("000000000000", "us-east-1", name)
        return await service.call("SendMessage", queue, Ask(request, CONTEXT))

    waiting = asyncio.create_task(send("q.fifo", FIFO))
    await _blocked(fresh_dsn)
    later = asyncio.create_task(send("q.fifo", FIFO.replace(b'"1"', b'"2"')))
    for _ in range(10):
        assert b"MessageId" in await send("q", PLAIN)
    assert not waiting.done()
    await stuck.rollback()
    assert b"MessageId" in await waiting
    assert b"MessageId" in await later
    await service.close()


@pytest.mark.usefixtures("stuck")
async def test_a_batch_that_waits_too_long_is_undone(client: Client, fresh_dsn: str) -> None:
    settings = Settings(dsn=fresh_dsn, call_timeout=timedelta(seconds=0.5), retry_for=timedelta(0))
    async with Client(settings) as hasty:
        carrier = Carrier(hasty.database, durable=True)
        job = _job(FIFO, "q.fifo")
        await carrier.run([job])
        assert isinstance(await _outcome(job), CallTimeout)
        # The connection has survived, and nothing of it is left.
        [pipe] = carrier._idle
        assert not pipe.broken
        job = _job()
        await carrier.run([job])
        assert b"MessageId" in await job.answer
        await carrier.close()
