"""Browsing and tailing take nothing from anybody."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING

import pytest

from penstock import errors
from penstock.client._async import client as client_module
from penstock.models import MessageState
from penstock.postgres._async.concurrency import Background, Event

if TYPE_CHECKING:
    from penstock import Client


async def test_browsing_shows_every_message_and_claims_none(mq: Client, orders: str) -> None:
    await mq.publish_many(orders, range(client_module.PAGE + 3))
    await mq.claim("billing", count=1)
    seen = [each async for each in mq.browse("billing")]
    assert [each.payload for each in seen] == list(range(client_module.PAGE + 3))
    assert [each.state for each in seen[:2]] == [MessageState.CLAIMED, MessageState.WAITING]
    assert len(await mq.claim("billing", count=1000)) == client_module.PAGE + 2


async def test_browsing_can_begin_behind_a_message(mq: Client, orders: str) -> None:
    ids = await mq.publish_many(orders, ["a", "b", "c"])
    assert [each.payload async for each in mq.browse("billing", after=ids[0])] == ["b", "c"]


@pytest.mark.parametrize("name", ["orders", "eu"])
async def test_a_tail_shows_what_comes_and_leaves_nothing_behind(
    mq: Client, orders: str, name: str
) -> None:
    await mq.create_queue("eu", topic=orders, filter={"headers": {"region": "eu"}})
    await mq.publish(orders, "before", headers={"region": "eu"})
    stop = Event()

    async def publish() -> None:
        # A tail sees what is published after it began, and nobody outside sees when that is.
        while not stop.is_set():
            await mq.publish(orders, "us", headers={"region": "us"})
            await mq.publish(orders, "eu", headers={"region": "eu"})
            await stop.wait(0.01)

    publisher = Background(publish, "publisher")
    publisher.start()
    seen = set()
    async with aclosing(mq.tail(name)) as tail:
        async for message in tail:
            seen.add(message.payload)
            if "eu" in seen and (name == "eu" or "us" in seen):
                break
    stop.set()
    await publisher.stop(60)
    assert seen == ({"eu"} if name == "eu" else {"eu", "us"})
    assert {queue.name for queue in await mq.list_queues()} == {"billing", "eu"}
    assert (await mq.queue_statistics("eu")).pending_count > 0


async def test_tailing_what_is_not_there_says_so(mq: Client) -> None:
    with pytest.raises(errors.UnknownName, match="nothing-here"):
        async for _ in mq.tail("nothing-here"):
            pass
