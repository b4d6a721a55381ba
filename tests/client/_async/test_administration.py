"""Topics, queues, readers and dead letters through the client."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from penstock import errors
from penstock.models import KeyCount, MessageState, Notify, Ordering

if TYPE_CHECKING:
    from penstock import Client


async def test_a_topic_is_listed_with_its_queues_and_readers(mq: Client) -> None:
    await mq.create_topic("orders", retention=timedelta(days=2))
    await mq.create_queue("billing", topic="orders")
    await mq.create_reader("audit", "orders")
    (topic,) = await mq.list_topics()
    assert (topic.name, topic.retention) == ("orders", timedelta(days=2))
    assert (topic.queue_count, topic.reader_count) == (1, 1)


async def test_a_queue_is_listed_with_its_settings(mq: Client) -> None:
    wanted = {"headers": {"region": "eu"}}
    await mq.create_queue(
        "billing",
        topic="orders",
        ordering="fifo",
        notify=Notify.NEVER,
        max_delivery_attempts=7,
        retry_base=timedelta(seconds=2),
        retry_cap=timedelta(minutes=1),
        retention=timedelta(days=1),
        filter=wanted,
    )
    (queue,) = await mq.list_queues()
    assert (queue.name, queue.topic) == ("billing", "orders")
    assert (queue.ordering, queue.notify) == (Ordering.FIFO, Notify.NEVER)
    assert queue.max_delivery_attempts == 7
    assert (queue.retry_base, queue.retry_cap) == (timedelta(seconds=2), timedelta(minutes=1))
    assert (queue.retention, queue.filter) == (timedelta(days=1), wanted)


async def test_what_was_deleted_is_unknown(mq: Client, orders: str) -> None:
    await mq.delete_queue("billing")
    with pytest.raises(errors.UnknownQueue, match="billing"):
        await mq.queue_statistics("billing")
    await mq.delete_topic(orders)
    with pytest.raises(errors.UnknownTopic, match="orders"):
        await mq.publish(orders, {})


async def test_an_exclusive_queue_lives_as_long_as_it_is_kept_alive(mq: Client) -> None:
    await mq.create_queue("mine", topic="orders", exclusive=True, keep_alive=timedelta(seconds=60))
    (queue,) = await mq.list_queues()
    until = await mq.extend_queue_keep_alive("mine", timedelta(seconds=120))
    assert queue.keep_alive_until is not None
    assert until > queue.keep_alive_until


async def test_keys_are_counted_and_browsed(mq: Client, orders: str) -> None:
    await mq.publish_many(orders, [1, 2, 3], keys=["a", "b", "a"])
    assert await mq.key_counts("billing") == [KeyCount("a", 2), KeyCount("b", 1)]
    assert [each.payload async for each in mq.browse("billing", key="a")] == [1, 3]


async def test_a_message_s_state_follows_its_life(mq: Client, orders: str) -> None:
    number = await mq.publish(orders, {})
    assert await mq.message_state("billing", number) is MessageState.WAITING
    (message,) = await mq.claim("billing")
    assert await mq.message_state("billing", number) is MessageState.CLAIMED
    await message.ack()
    assert await mq.message_state("billing", number) is MessageState.DONE
    assert await mq.message_state("billing", number + 1) is None


async def test_dead_letters_are_listed_requeued_and_purged(mq: Client, orders: str) -> None:
    numbers = await mq.publish_many(orders, ["a", "b"], keys="k", tenant_ids="t", priorities=3)
    for message in await mq.claim("billing", count=2):
        await message.bury("no use")
    letters = await mq.dead_letters("billing")
    assert [letter.message_id for letter in letters] == list(numbers)
    assert {(each.key, each.tenant_id, each.priority, each.error) for each in letters} == {
        ("k", "t", 3, "no use")
    }
    assert letters[0].history != []
    assert await mq.requeue("billing", numbers[:1]) == 1
    assert await mq.purge_dead_letters("billing") == 1
    assert await mq.dead_letters() == []
    assert (await mq.queue_statistics("billing")).pending_count == 1


async def test_a_reader_sees_every_message_until_it_commits(mq: Client, orders: str) -> None:
    await mq.create_reader("audit", orders)
    first, second = await mq.publish_many(orders, ["a", "b"])
    assert [each.id for each in await mq.read_window("audit")] == [first, second]
    assert [each.payload for each in await mq.read_window("audit")] == ["a", "b"]
    assert await mq.commit_window("audit", second) is True
    assert await mq.commit_window("audit", second) is False
    assert await mq.read_window("audit") == []
    assert [reader.lag for reader in await mq.list_readers()] == [0]
    await mq.delete_reader("audit")
    assert await mq.list_readers() == []


async def test_purging_drops_what_is_not_done(mq: Client, orders: str) -> None:
    await mq.publish_many(orders, [1, 2, 3])
    assert await mq.purge_queue("billing") == 3
    assert await mq.claim("billing") == []


async def test_a_paused_queue_gives_out_nothing(mq: Client, orders: str) -> None:
    since = await mq.pause_queue("billing")
    await mq.publish(orders, 1)
    assert await mq.claim("billing") == []
    assert since in [queue.paused_at for queue in await mq.list_queues()]
    assert await mq.resume_queue("billing") is True
    assert [message.payload for message in await mq.claim("billing")] == [1]


async def test_health_and_housekeeping_are_told_line_by_line(mq: Client) -> None:
    assert all(check.name for check in await mq.health())
    assert all(step.affected >= 0 for step in await mq.maintain())
