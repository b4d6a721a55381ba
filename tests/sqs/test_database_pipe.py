"""Batches over pipelined connections: what goes wrong there, and which calls fail by it."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from penstock.client._async.client import Client
from penstock.errors import CallTimeout, EngineError, OutcomeUnknown
from penstock.settings import Settings
from penstock.sqs.backend.call_batcher import BatchedCall, Invocation
from penstock.sqs.backend.database_pipe import PipePool
from penstock.sqs.backend.sqs_service import Service
from penstock.sqs.protocol.queue_names import QueueId
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
async def pool(client: Client) -> AsyncIterator[PipePool]:
    made = PipePool(client.database, durable=True)
    yield made
    await made.close()


def _call(request: bytes = PLAIN, queue: str = "q", action: str = "SendMessage") -> BatchedCall:
    answer = asyncio.get_running_loop().create_future()
    return BatchedCall(action, queue, Invocation(request, CONTEXT), answer)


async def _outcome(call: BatchedCall) -> Any:
    [found] = await asyncio.gather(call.answer, return_exceptions=True)
    return found


async def test_actions_and_queues_travel_together_and_each_is_answered(pool: PipePool) -> None:
    calls = [
        _call(),
        _call(queue="r"),
        _call(queue="nowhere"),
        _call(action="DeleteMessage"),
        _call(),
    ]
    await pool.run(calls)
    found = [(await call.answer)[:12] for call in calls]
    assert found == [
        b'{"MessageId"',
        b'{"MessageId"',
        b'{"__error": ',
        b'{"__error": ',
        b'{"MessageId"',
    ]


async def test_one_bad_request_does_not_spoil_its_neighbours(pool: PipePool) -> None:
    calls = [_call(), _call(b"{"), _call(), _call(b"{}", "r")]
    await pool.run(calls)
    first, bad, third, other = [await _outcome(call) for call in calls]
    assert b"MessageId" in first
    assert b"MessageId" in third
    assert isinstance(bad, EngineError)
    assert b"MissingParameter" in other
    # What was refused as a whole was not sent twice.
    assert await _waiting(pool) == 2


async def _waiting(pool: PipePool) -> int:
    call = _call(b'{"MaxNumberOfMessages": 10}', action="ReceiveMessage")
    await pool.run([call])
    return (await call.answer).count(b"MD5OfBody")


async def test_a_connection_that_broke_meanwhile_is_replaced(
    pool: PipePool, fresh_dsn: str
) -> None:
    await pool.run([_call()])
    [pipe] = pool._idle
    _terminate(fresh_dsn, pipe.backend_pid)
    await eventually_async(lambda: pipe.broken)
    call = _call()
    await pool.run([call])
    assert b"MessageId" in await call.answer


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
    pool: PipePool, fresh_dsn: str
) -> None:
    call = _call(FIFO, "q.fifo")
    running = asyncio.create_task(pool.run([call]))
    _terminate(fresh_dsn, await _blocked(fresh_dsn))
    await running
    assert isinstance(await _outcome(call), OutcomeUnknown)


async def test_a_queue_that_waits_for_a_lock_holds_up_no_other(
    client: Client, fresh_dsn: str, stuck: psycopg.AsyncConnection[Any]
) -> None:
    service = Service(client.database)

    async def send(name: str, request: bytes) -> bytes:
        queue = QueueId("000000000000", "us-east-1", name)
        return await service.call("SendMessage", queue, Invocation(request, CONTEXT))

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
        pool = PipePool(hasty.database, durable=True)
        call = _call(FIFO, "q.fifo")
        await pool.run([call])
        assert isinstance(await _outcome(call), CallTimeout)
        # The connection has survived, and nothing of it is left.
        [pipe] = pool._idle
        assert not pipe.broken
        call = _call()
        await pool.run([call])
        assert b"MessageId" in await call.answer
        await pool.close()
