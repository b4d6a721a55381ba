"""drain: a worker's handlers run until nothing is left, and the test learns what happened."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

import penstock
from penstock.testing import Clock, NotDrained, drain

if TYPE_CHECKING:
    from tests.fixtures.databases import Connect, Database


@dataclass(frozen=True)
class Order:
    id: int


@pytest.fixture
def clock(database: Database) -> Clock:
    return Clock(database.dsn)


@pytest.fixture
def mq(database: Database) -> penstock.Client:
    return penstock.connect(database.dsn)


async def test_everything_that_is_due_is_handled(mq: penstock.Client) -> None:
    seen: list[int] = []
    worker = penstock.Worker(mq)

    @worker.handler("billing", concurrency=5, payload_type=Order)
    async def bill(message: penstock.Message[Order]) -> None:
        seen.append(message.payload.id)

    async with mq:
        await mq.create_queue("billing", topic="orders")
        await mq.publish_many("orders", [Order(number) for number in range(25)])
        drained = await drain(worker)
        again = await drain(worker)
        assert (await mq.queue_statistics("billing")).completed_count == 25
    assert sorted(seen) == list(range(25))
    assert (drained.handled, drained.failed, drained.dead_letters) == (25, 0, ())
    assert again.handled == 0


async def test_retries_run_when_a_clock_may_be_moved(mq: penstock.Client, clock: Clock) -> None:
    attempts: list[int] = []
    worker = penstock.Worker(mq)

    @worker.handler("billing")
    async def bill(message: penstock.Message[Any]) -> None:
        attempts.append(message.attempt)
        if message.attempt < 3:
            raise ConnectionError("the bank does not answer")

    async with mq:
        await mq.create_queue("billing", retry_base=timedelta(hours=1))
        await mq.publish("billing", {}, delay=timedelta(days=2))
        assert (await drain(worker)).handled == 0
        drained = await drain(worker, clock=clock)
    assert attempts == [1, 2, 3]
    assert (drained.handled, drained.errors) == (1, ["ConnectionError", "ConnectionError"])


async def test_the_dead_are_reported_with_their_errors(mq: penstock.Client, clock: Clock) -> None:
    worker = penstock.Worker(mq)

    @worker.handler("billing", payload_type=Order)
    async def bill(message: penstock.Message[Order]) -> None:
        raise ValueError("no such customer")

    async with mq:
        await mq.create_queue("billing", max_delivery_attempts=2)
        await mq.publish("billing", Order(1))
        await mq.publish("billing", {"id": "one"})
        drained = await drain(worker, clock=clock)
        # Those of an earlier drain are old news.
        assert (await drain(worker, clock=clock)).dead_letters == ()
    errors = sorted(letter.error or "" for letter in drained.dead_letters)
    assert len(errors) == 2
    assert "no such customer" in errors[0]
    assert "the payload is no Order" in errors[1]


async def test_a_chain_of_queues_is_followed_to_its_end(mq: penstock.Client) -> None:
    done: list[str] = []
    worker = penstock.Worker(mq)

    @worker.handler("invoices")
    def invoice(message: penstock.ClaimedMessage) -> None:
        done.append("invoice")

    @worker.handler("orders")
    async def order(message: penstock.Message[Any]) -> None:
        await mq.publish("invoices", {})
        done.append("order")

    # The client is opened and closed by the drain itself.
    async with mq:
        await mq.create_queue("orders")
        await mq.create_queue("invoices")
        await mq.publish("orders", {})
    drained = await drain(worker)
    assert done == ["order", "invoice"]
    assert drained.handled == 2


async def test_what_never_ends_is_told(mq: penstock.Client) -> None:
    worker = penstock.Worker(mq)

    @worker.handler("echo")
    async def again(message: penstock.Message[Any]) -> None:
        await mq.publish("echo", {})

    async with mq:
        await mq.create_queue("echo")
        await mq.publish("echo", {})
        with pytest.raises(NotDrained, match="still something to do"):
            await drain(worker, at_most=20)


async def test_a_queue_that_another_session_holds_is_not_taken_for_empty(
    mq: penstock.Client, connect: Connect
) -> None:
    seen: list[int] = []
    worker = penstock.Worker(mq)

    @worker.handler("billing", payload_type=Order)
    async def bill(message: penstock.Message[Order]) -> None:
        seen.append(message.payload.id)

    holder = connect(autocommit=False)
    holder.execute("select penstock.configure('lock_wait', '10 milliseconds')")
    holder.commit()
    async with mq:
        await mq.create_queue("billing", topic="orders")
        await mq.publish("orders", Order(1))
        holder.execute("select penstock_data.lock_queue('billing')")
        with pytest.raises(NotDrained):
            await drain(worker, at_most=3)
        holder.rollback()
        drained = await drain(worker)
    assert (seen, drained.handled) == ([1], 1)
