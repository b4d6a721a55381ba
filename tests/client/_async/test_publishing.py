"""Publishing: what arrives is what was sent, once, when and where it should."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

import penstock
from penstock import errors
from tests.fixtures.clock import advance

if TYPE_CHECKING:
    from collections.abc import Iterator

    import psycopg

    from penstock import Client


@dataclass
class Order:
    number: int
    lines: list[str]


async def test_everything_published_with_a_message_arrives_with_it(mq: Client, orders: str) -> None:
    number = await mq.publish(
        orders,
        {"order": 7},
        headers={"region": "eu"},
        key="customer-7",
        priority=5,
        correlation_id="c",
        tenant_id="t",
    )
    (message,) = await mq.claim("billing")
    assert message.id == number == number.id
    assert message.payload == {"order": 7}
    assert message.headers == {"region": "eu"}
    assert (message.key, message.priority, message.attempt) == ("customer-7", 5, 1)
    assert (message.correlation_id, message.tenant_id) == ("c", "t")
    assert message.claimed_until > message.published_at


async def test_a_typed_payload_comes_back_as_its_type(mq: Client, orders: str) -> None:
    await mq.publish(orders, Order(7, ["tea"]))
    (message,) = await mq.claim("billing", payload_type=Order)
    assert message.payload == Order(7, ["tea"])


async def test_a_payload_of_another_shape_spoils_only_itself(mq: Client, orders: str) -> None:
    await mq.publish_many(orders, [{"number": "seven"}, Order(8, [])])
    first, second = await mq.claim("billing", count=2, payload_type=Order)
    with pytest.raises(errors.PayloadInvalid, match="Order"):
        _ = first.payload
    assert second.payload == Order(8, [])


async def test_a_delayed_message_waits(
    mq: Client, orders: str, db: psycopg.Connection[Any]
) -> None:
    await mq.publish(orders, "later", delay=timedelta(minutes=5))
    await mq.publish(orders, "even later", deliver_after=datetime.now(UTC) + timedelta(minutes=9))
    assert await mq.claim("billing") == []
    advance(db, 301)
    (later,) = await mq.claim("billing", count=2)
    assert later.payload == "later"
    await later.ack()
    advance(db, 300)
    assert [each.payload for each in await mq.claim("billing", count=2)] == ["even later"]


async def test_an_expired_message_is_not_delivered(
    mq: Client, orders: str, db: psycopg.Connection[Any]
) -> None:
    await mq.publish(orders, "soon", expires_in=timedelta(minutes=5))
    await mq.publish(orders, "late", expires_at=datetime.now(UTC) + timedelta(hours=1))
    advance(db, 301)
    assert [each.payload for each in await mq.claim("billing", count=2)] == ["late"]


async def test_one_dedupe_key_is_published_once(mq: Client, orders: str) -> None:
    first = await mq.publish(orders, 1, dedupe_key="once")
    assert await mq.publish(orders, 2, dedupe_key="once") == first
    assert [each.payload for each in await mq.claim("billing", count=2)] == [1]


async def test_many_take_one_value_for_all_or_one_for_each(mq: Client, orders: str) -> None:
    ids = await mq.publish_many(
        orders, ["a", "b"], headers={"all": True}, keys=["x", None], priorities=[1, 2]
    )
    found = await mq.claim("billing", count=2)
    assert [each.payload for each in found] == ["b", "a"], "the higher priority goes first"
    assert [each.key for each in found] == [None, "x"]
    assert [each.headers for each in found] == [{"all": True}, {"all": True}]
    assert sorted(ids) == ids.ids


async def test_many_are_published_all_or_none(mq: Client, orders: str) -> None:
    with pytest.raises(errors.InvalidArgument):
        await mq.publish_many(orders, ["a", "b", "c"], keys=["only", "two"])
    assert await mq.claim("billing", count=9) == []


async def test_options_that_contradict_each_other_are_refused(mq: Client, orders: str) -> None:
    with pytest.raises(errors.InvalidArgument, match="delay= and deliver_after="):
        await mq.publish(orders, 1, delay=timedelta(1), deliver_after=datetime.now(UTC))
    with pytest.raises(errors.InvalidArgument, match="before you commit"):
        async with mq.transaction() as connection:
            await mq.publish(orders, 1, wait=timedelta(1), connection=connection)


async def test_a_stream_of_any_length_is_published_in_its_order(mq: Client, orders: str) -> None:
    told: list[int] = []
    made: list[int] = []

    def payloads() -> Iterator[int]:
        for number in range(25):
            made.append(number)
            yield number

    assert await mq.publish_stream(orders, payloads(), batch_size=10, progress=told.append) == 25
    assert told == [10, 20, 25]
    found = await mq.claim("billing", count=100)
    assert [each.payload for each in found] == made


async def test_a_stream_s_messages_may_have_keys_and_headers(mq: Client, orders: str) -> None:
    items = [penstock.Outgoing(Order(1, []), headers={"a": 1}, key="k", priority=4), "plain"]
    await mq.publish_stream(orders, items)
    first, second = await mq.claim("billing", count=2)
    assert (first.payload["number"], first.headers, first.key) == (1, {"a": 1}, "k")
    assert (second.payload, second.headers, second.key) == ("plain", {}, None)


async def test_an_empty_stream_publishes_nothing(mq: Client, orders: str) -> None:
    assert await mq.publish_stream(orders, []) == 0


async def test_a_stream_that_fails_keeps_the_batches_before(mq: Client, orders: str) -> None:
    with pytest.raises(errors.PayloadInvalid):
        await mq.publish_stream(orders, [1, 2, 3, float("nan")], batch_size=2)
    assert [each.payload for each in await mq.claim("billing", count=9)] == [1, 2]


async def test_a_stream_in_a_transaction_is_published_whole_or_not_at_all(
    mq: Client, orders: str
) -> None:
    with pytest.raises(errors.PayloadInvalid):
        async with mq.transaction() as connection:
            await mq.publish_stream(
                orders, [1, 2, 3, float("nan")], batch_size=2, connection=connection
            )
    assert await mq.claim("billing", count=9) == []


async def test_a_stream_to_an_unknown_topic_says_so(mq: Client) -> None:
    with pytest.raises(errors.UnknownTopic, match="nowhere"):
        await mq.publish_stream("nowhere", [1])


async def test_text_that_cannot_be_sent_is_refused_in_our_words(mq: Client, orders: str) -> None:
    for call in (
        lambda: mq.publish("half\ud800", 1),
        lambda: mq.publish("orders", 1, key="half\ud800"),
        lambda: mq.create_queue("half\ud800"),
    ):
        with pytest.raises(errors.InvalidArgument, match="surrogate"):
            await call()
