"""`mq.consume()`: modes, batches, and what becomes of messages that were claimed ahead."""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from penstock import errors
from penstock.client import consumer_options
from penstock.client._async import consumer as consumer_module
from penstock.client._async.client import connect
from penstock.observe import Event, Name, subscribe
from penstock.postgres.session import Reach
from tests.fixtures.patience import eventually_async

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from penstock.client._async.client import Client
    from penstock.client._async.consumer import Consumer
    from tests.fixtures.databases import Database
    from tests.fixtures.pgbouncer import Route

LONG = 120.0
HOUR = timedelta(hours=1)
MODES = ["hybrid", "listen", "poll"]


@pytest.fixture
async def mq(database: Database) -> AsyncIterator[Client]:
    async with connect(database.dsn) as client:
        await client.create_queue("billing", topic="orders")
        yield client


@pytest.fixture
def only_notifications(monkeypatch: pytest.MonkeyPatch) -> None:
    """An idle consumer has no doubts: what wakes it is a notification, or a due time."""
    monkeypatch.setattr(consumer_options.Stragglers, "left", lambda self, oldest_writer: False)


async def taken(consumer: Consumer[Any], count: int) -> list[Any]:
    """The payloads of the next messages, acked."""
    found = []
    for _ in range(count):
        message = await consumer.get(LONG)
        assert message is not None
        assert await message.ack()
        found.append(message.payload)
    return found


async def idle(consumer: Consumer[Any]) -> None:
    """Until it has looked in vain and sleeps."""
    assert await consumer.get(0.01) is None
    await eventually_async(lambda: consumer._feeder._looks > 0)


async def counts(mq: Client) -> tuple[int, int]:
    found = await mq.queue_statistics("billing")
    return found.pending_count, found.processing_count


# Modes


@pytest.mark.parametrize("mode", MODES)
async def test_every_mode_delivers_what_is_there_and_what_comes(mq: Client, mode: str) -> None:
    await mq.publish_many("orders", [1, 2, 3])
    short = timedelta(seconds=0.05)
    async with mq.consume("billing", mode=mode, polling_interval=short) as consumer:
        assert await taken(consumer, 3) == [1, 2, 3]
        await idle(consumer)
        await mq.publish("orders", 4)
        assert await taken(consumer, 1) == [4]
    assert await counts(mq) == (0, 0)


async def test_behaviour_is_the_same_on_every_route(route: Route, database: Database) -> None:
    async with connect(route.dsn, pooler=route.pooler) as mq:
        await mq.create_queue("billing", topic="orders")
        short = timedelta(seconds=0.05)
        async with mq.consume("billing", polling_interval=short) as consumer:
            await idle(consumer)
            await mq.publish_many("orders", list(range(30)))
            assert await taken(consumer, 30) == list(range(30))
        assert await counts(mq) == (0, 0)


@pytest.mark.usefixtures("only_notifications")
@pytest.mark.parametrize("mode", ["hybrid", "listen"])
async def test_no_wake_up_is_missed_however_publishing_falls(mq: Client, mode: str) -> None:
    async with mq.consume("billing", mode=mode, polling_interval=HOUR) as consumer:
        for number in range(100):
            await mq.publish("orders", number)
            assert await taken(consumer, 1) == [number]


@pytest.mark.parametrize("mode", ["hybrid", "listen"])
async def test_message_committed_after_the_consumer_fell_asleep_is_found(
    mq: Client, database: Database, mode: str
) -> None:
    # Its publisher saw nobody waiting, so it notifies nobody.
    with psycopg.connect(database.dsn) as publisher:
        publisher.execute("select penstock.publish_message('orders', '1')")
        async with mq.consume("billing", mode=mode, polling_interval=HOUR) as consumer:
            await idle(consumer)
            await eventually_async(lambda: consumer._feeder._watch.reach is Reach.HEARING)
            looks = consumer._feeder._looks
            await eventually_async(lambda: consumer._feeder._looks > looks + 1)
            publisher.commit()
            assert await taken(consumer, 1) == [1]


@pytest.mark.usefixtures("only_notifications")
@pytest.mark.parametrize("mode", MODES)
async def test_delayed_message_is_met_when_it_is_due(mq: Client, mode: str) -> None:
    await mq.publish("orders", "later", delay=timedelta(seconds=0.3))
    async with mq.consume("billing", mode=mode, polling_interval=HOUR) as consumer:
        assert await taken(consumer, 1) == ["later"]


@pytest.mark.usefixtures("only_notifications")
@pytest.mark.parametrize("mode", ["hybrid", "listen"])
async def test_message_that_comes_back_wakes_a_sleeper(mq: Client, mode: str) -> None:
    await mq.publish("orders", "again")
    [held] = await mq.claim("billing")
    async with mq.consume("billing", mode=mode, polling_interval=HOUR) as consumer:
        await idle(consumer)
        await held.release()
        assert await taken(consumer, 1) == ["again"]


async def test_unknown_mode_is_refused_at_once(mq: Client) -> None:
    with pytest.raises(errors.InvalidSetting, match="hybrid, listen, poll"):
        mq.consume("billing", mode="push")


# Leaving


async def test_leaving_the_loop_releases_what_was_not_handed_out(mq: Client) -> None:
    await mq.publish_many("orders", list(range(10)))
    async for message in mq.consume("billing"):
        assert message.payload == 0
        await message.ack()
        break
    await eventually_async(lambda: not mq.consumers)
    assert await counts(mq) == (9, 0)
    rest = await mq.claim("billing", count=10)
    assert {message.attempt for message in rest} == {1}


async def test_error_in_the_loop_releases_the_rest_and_keeps_the_claim_in_hand(mq: Client) -> None:
    await mq.publish_many("orders", list(range(10)))

    async def handle() -> None:
        async with aclosing(aiter(mq.consume("billing"))) as messages:
            async for message in messages:
                raise RuntimeError(message.id)

    with pytest.raises(RuntimeError):
        await handle()
    assert await counts(mq) == (9, 1)


async def test_context_manager_can_be_iterated_again(mq: Client) -> None:
    await mq.publish_many("orders", [1, 2])
    async with mq.consume("billing") as consumer:
        for expected in (1, 2):
            async for message in consumer:
                assert message.payload == expected
                await message.ack()
                break
    assert await counts(mq) == (0, 0)


async def test_closing_the_client_closes_its_consumers(database: Database) -> None:
    async with connect(database.dsn) as mq:
        await mq.create_queue("billing", topic="orders")
        await mq.publish_many("orders", list(range(10)))
        message = await mq.consume("billing").get(LONG)
        assert message is not None
    async with connect(database.dsn) as mq:
        assert await counts(mq) == (9, 1)


async def test_nothing_came_is_none(mq: Client) -> None:
    async with mq.consume("billing") as consumer:
        assert await consumer.get(0) is None


# Claims of what waits in memory


async def test_batch_size_is_what_one_claim_takes(mq: Client) -> None:
    await mq.publish_many("orders", list(range(10)))
    async with mq.consume("billing", batch_size=4) as consumer:
        await taken(consumer, 1)
        assert await counts(mq) == (6, 3)


async def test_prefetch_claims_the_next_batch_before_the_last_is_used_up(mq: Client) -> None:
    await mq.publish_many("orders", list(range(20)))
    async with mq.consume("billing", batch_size=4, prefetch=3) as consumer:
        await taken(consumer, 1)
        await eventually_async(lambda: len(consumer._feeder.holding) == 3)
        await taken(consumer, 1)
        await eventually_async(lambda: len(consumer._feeder.holding) == 6)
        assert await counts(mq) == (12, 6)


async def test_message_whose_claim_ran_out_in_memory_is_not_handed_out(
    mq: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    await mq.publish_many("orders", [1, 2])
    async with mq.consume("billing", claim_for=timedelta(seconds=30)) as consumer:
        await taken(consumer, 1)
        now = consumer_module.monotonic
        monkeypatch.setattr(consumer_module, "monotonic", lambda: now() + 31)
        assert await consumer.get(0) is None


async def test_waiting_messages_are_kept_and_then_released_when_the_caller_is_stuck(
    mq: Client,
) -> None:
    seen: list[Event] = []
    await mq.publish_many("orders", [1, 2, 3])
    with subscribe(seen.append):
        async with mq.consume("billing", claim_for=timedelta(seconds=1)) as consumer:
            message = await consumer.get(LONG)
            assert message is not None
            await eventually_async(lambda: any(event.name is Name.CLAIM_EXTENDED for event in seen))
            await eventually_async(
                lambda: any(event.name is Name.MESSAGE_RELEASED for event in seen)
            )
            others = await mq.claim("billing", count=10)
    assert {(each.payload, each.attempt) for each in others} >= {(2, 1), (3, 1)}


# Payloads


@dataclass
class Order:
    order: int


async def test_payload_arrives_as_its_type(mq: Client) -> None:
    await mq.publish("orders", Order(7))
    async with mq.consume("billing", payload_type=Order) as consumer:
        assert await taken(consumer, 1) == [Order(7)]


async def test_payload_that_does_not_fit_becomes_a_dead_letter_with_the_reason(
    mq: Client,
) -> None:
    await mq.publish_many("orders", [{"order": "seven"}, {"order": 8}])
    async with mq.consume("billing", payload_type=Order) as consumer:
        assert await taken(consumer, 1) == [Order(8)]
    [letter] = await mq.dead_letters("billing")
    assert letter.payload == {"order": "seven"}
    assert "Order" in (letter.error or "")
    assert "$.order" in (letter.error or "")


async def test_batch_of_misfits_does_not_put_the_consumer_to_sleep(mq: Client) -> None:
    await mq.publish_many("orders", ["bad"] * 3 + [{"order": 1}])
    options: dict[str, Any] = {"mode": "poll", "polling_interval": HOUR, "batch_size": 3}
    async with mq.consume("billing", payload_type=Order, **options) as consumer:
        assert await taken(consumer, 1) == [Order(1)]
    assert len(await mq.dead_letters("billing")) == 3


# Errors


async def test_unknown_queue_is_told_in_the_loop(mq: Client) -> None:
    with pytest.raises(errors.UnknownQueue, match="nowhere"):
        async for _ in mq.consume("nowhere"):
            pass
    assert not mq.consumers


async def test_queue_deleted_under_a_consumer_is_told(
    mq: Client, db: psycopg.Connection[Any]
) -> None:
    short = timedelta(seconds=0.02)
    async with mq.consume("billing", mode="poll", polling_interval=short) as consumer:
        await idle(consumer)
        db.execute("select penstock.delete_queue('billing')")
        with pytest.raises(errors.UnknownQueue, match="billing"):
            await consumer.get(LONG)
