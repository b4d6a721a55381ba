"""What a user of the Python door writes, for `mypy --strict`: see test_user_types.py.  Not run."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any, assert_type

from psycopg import AsyncConnection  # noqa: TC002 - as users write it

import penstock
import penstock.sync
from penstock import ClaimedMessage, Dead, Group, Message, Retry, Worker
from penstock.testing import drain


@dataclass
class Order:
    order: int


worker = Worker(penstock.connect("postgresql://localhost/shop", pool_size=3))


@worker.handler("billing", concurrency=20, mode="hybrid", payload_type=Order)
async def bill(message: Message[Order]) -> None:
    if message.payload.order < 0:
        raise Dead("no such order")
    raise Retry(timedelta(seconds=1))


@worker.handler("ledger", transactional=True)
async def post(message: Message[Any], conn: AsyncConnection[Any]) -> None:
    await conn.execute("insert into ledger values (%s)", (message.payload,))


@worker.handler("thumbnails", run_in="process", timeout=timedelta(minutes=1))
def shrink(message: ClaimedMessage) -> None:
    print(message.payload)


group = Group("processors", filter=lambda message: message.payload["priority"] > 5)


@group.member("europe")
async def europe(message: Message[Any]) -> None:
    await message.ack()


async def main() -> None:
    async with penstock.connect() as mq:
        published = await mq.publish("orders", Order(1), wait=timedelta(seconds=1))
        assert_type(published.processed, bool | None)
        await mq.publish_many("orders", [Order(2)], keys="customer-7")
        assert_type(await mq.publish_stream("orders", (Order(n) for n in range(3))), int)
        async for message in mq.consume("billing", payload_type=Order):
            assert_type(message, Message[Order])
            await message.nack(error=ValueError("no stock"))
        async with mq.consume("billing") as consumer:
            assert_type(await consumer.get(timeout=3), Message[Any] | None)
        for claimed in await mq.claim("billing", payload_type=list[Order]):
            assert_type(claimed.payload, list[Order])
        try:
            await mq.request("questions", 21, timeout=timedelta(seconds=1))
        except penstock.errors.NoReply:
            assert_type((await mq.queue_statistics("billing")).pending_count, int)
        async with mq.transaction() as conn:
            await mq.publish("orders", {}, connection=conn)
    assert_type((await drain(worker)).handled, int)


def blocking() -> None:
    with penstock.sync.connect(retry_for=timedelta(seconds=3)) as mq:
        for message in mq.consume("billing", payload_type=Order):
            assert_type(message.payload, Order)
            assert_type(message.ack(), bool)


def mistaken() -> None:
    """Each of these is refused, or the comment on it is."""
    penstock.connect(pool_sise=3)  # type: ignore[call-arg]
    penstock.connect(retry_for=3)  # type: ignore[arg-type]
    worker.handler("billing", concurency=3)  # type: ignore[call-arg]
    worker.handler("billing", mode="fast")  # type: ignore[arg-type]
    Worker(penstock.sync.connect())  # type: ignore[arg-type]
    Retry(30)  # type: ignore[arg-type]
