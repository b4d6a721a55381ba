"""Consumers shared by tasks, closed under them, and cancelled."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

import penstock
from tests.fixtures.patience import eventually_async

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from penstock import Client, Consumer
    from tests.fixtures.databases import Database

LONG = 120.0


@pytest.fixture
async def mq(database: Database) -> AsyncIterator[Client]:
    async with penstock.connect(database.dsn) as client:
        await client.create_queue("billing", topic="orders")
        yield client


async def remaining(mq: Client) -> tuple[int, int]:
    found = await mq.queue_statistics("billing")
    return found.pending_count, found.processing_count


async def test_closing_ends_a_loop_that_waits(mq: Client) -> None:
    consumer = mq.consume("billing")

    async def loop() -> list[Any]:
        return [message async for message in consumer]

    loops = [asyncio.create_task(loop()) for _ in range(3)]
    await eventually_async(lambda: consumer._feeder._looks > 0)
    await consumer.close()
    assert await asyncio.gather(*loops) == [[], [], []]


async def test_caller_who_is_cancelled_loses_nothing(mq: Client) -> None:
    async with mq.consume("billing") as consumer:
        for number in range(20):
            waiting = asyncio.create_task(consumer.get(LONG))
            # At the very moment at which something arrives.
            await mq.publish("orders", number)
            waiting.cancel()
            await asyncio.wait([waiting])
            if waiting.cancelled():
                message = await consumer.get(LONG)
            else:
                message = waiting.result()
            assert message is not None
            assert message.payload == number
            await message.ack()
    assert await remaining(mq) == (0, 0)


async def test_tasks_that_share_a_consumer_get_each_message_once(mq: Client) -> None:
    found: list[int] = []

    async def loop(consumer: Consumer[Any]) -> None:
        async for message in consumer:
            found.append(message.payload)
            await message.ack()

    async with mq.consume("billing", batch_size=7) as consumer:
        loops = [asyncio.create_task(loop(consumer)) for _ in range(4)]
        await mq.publish_many("orders", list(range(200)))
        await eventually_async(lambda: len(found) >= 200)
    await asyncio.gather(*loops)
    assert sorted(found) == list(range(200))


async def test_consumers_of_one_queue_get_each_message_once(mq: Client) -> None:
    found: list[int] = []

    async def loop() -> None:
        async for message in mq.consume("billing", batch_size=3):
            found.append(message.payload)
            await message.ack()

    loops = [asyncio.create_task(loop()) for _ in range(4)]
    for number in range(100):
        await mq.publish("orders", number)
    await eventually_async(lambda: len(found) >= 100)
    for consumer in list(mq.consumers):
        await consumer.close()
    await asyncio.gather(*loops)
    assert sorted(found) == list(range(100))
