"""Waiting until a message has been processed, and for the reply to a request."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from penstock import errors
from penstock.postgres._async.concurrency import Background

if TYPE_CHECKING:
    from penstock import Client

LONG = timedelta(seconds=60)
SHORT = timedelta(milliseconds=50)


async def test_publishing_waits_until_every_queue_has_acked(mq: Client, orders: str) -> None:
    await mq.create_queue("shipping", topic=orders)

    async def work() -> None:
        for queue in ("billing", "shipping"):
            async for message in mq.consume(queue):
                await message.ack()
                break

    worker = Background(work, "worker")
    worker.start()
    done = await mq.publish(orders, 1, wait=LONG)
    await worker.stop(60)
    assert done.processed is True


async def test_a_message_that_one_queue_still_has_is_not_processed(mq: Client, orders: str) -> None:
    await mq.create_queue("shipping", topic=orders)
    number = await mq.publish(orders, 1)
    (message,) = await mq.claim("billing")
    await message.ack()
    assert await mq.wait_processed(orders, [number], SHORT) is False


async def test_a_dead_message_is_not_processed(mq: Client, orders: str) -> None:
    number = await mq.publish(orders, 1)
    (message,) = await mq.claim("billing")
    await message.bury("no use")
    assert await mq.wait_processed(orders, [number], SHORT) is False


async def test_a_message_processed_before_the_wait_began_counts(mq: Client, orders: str) -> None:
    ids = await mq.publish_many(orders, [1, 2])
    for message in await mq.claim("billing", count=2):
        await message.ack()
    assert await mq.wait_processed(orders, ids, timedelta(0)) is True


async def test_a_message_whose_trace_is_gone_counts_as_processed(mq: Client, orders: str) -> None:
    number = await mq.publish(orders, 1)
    (message,) = await mq.claim("billing")
    await message.ack()
    from penstock.client import calls

    assert await mq.run(calls.cleanup_queue("billing")) == 1
    assert await mq.wait_processed(orders, [number], timedelta(0)) is True


async def test_a_queue_whose_filter_keeps_it_out_is_not_waited_for(mq: Client, orders: str) -> None:
    await mq.create_queue("eu", topic=orders, filter={"headers": {"region": "eu"}})
    number = await mq.publish(orders, 1, headers={"region": "us"})
    (message,) = await mq.claim("billing")
    await message.ack()
    assert await mq.wait_processed(orders, [number], timedelta(0)) is True


async def test_many_tell_whether_all_were_processed_in_time(mq: Client, orders: str) -> None:
    assert (await mq.publish_many(orders, [1, 2], wait=SHORT)).processed is False
    assert (await mq.publish(orders, 1)).processed is None


async def test_a_topic_without_queues_has_nothing_to_wait_for(mq: Client) -> None:
    await mq.create_topic("void")
    assert (await mq.publish("void", 1, wait=timedelta(0))).processed is True


async def test_a_request_gets_its_own_reply(mq: Client, orders: str) -> None:
    async def answer() -> None:
        async for message in mq.consume("billing"):
            await message.reply({"seen": message.payload})
            await message.ack()
            if message.payload == "last":
                break

    answering = Background(answer, "answering")
    answering.start()
    first = await mq.request(orders, "first", timeout=LONG)
    last = await mq.request(orders, "last", timeout=LONG, headers={"x": 1})
    await answering.stop(60)
    assert first.payload == {"seen": "first"}
    assert last.payload == {"seen": "last"}
    assert [queue.name for queue in await mq.list_queues()] == ["billing"]


async def test_a_request_that_nobody_answers_ends(mq: Client, orders: str) -> None:
    with pytest.raises(errors.NoReply, match="orders"):
        await mq.request(orders, "hello", timeout=SHORT)
    assert [queue.name for queue in await mq.list_queues()] == ["billing"]


async def test_a_message_that_asked_for_no_reply_can_t_be_replied_to(
    mq: Client, orders: str
) -> None:
    await mq.publish(orders, 1)
    (message,) = await mq.claim("billing")
    with pytest.raises(errors.InvalidArgument, match="request"):
        await message.reply("hello")
