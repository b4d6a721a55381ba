"""Live updates: one poller on one connection, however many watch."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

from penstock.dashboard.pages import events
from tests.dashboard.visitor import Page

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.dashboard.visitor import Visitor
    from tests.sql.caller import Caller

SESSIONS = "select count(*) from pg_stat_activity where application_name = 'penstock dashboard'"


def streams(visitor: Visitor, count: int, view: str = "overview") -> list[AsyncIterator[str]]:
    dashboard, rendered = visitor.app.state.dashboard, events._Rendered()
    return [events._events(dashboard, rendered, view, "q", 0) for _ in range(count)]


async def until_told(stream: AsyncIterator[str], words: str) -> str:
    """Read on until an update says so."""
    async with asyncio.timeout(60):
        async for event in stream:
            if event.startswith("event: regions"):
                html = json.loads(event.partition("data: ")[2])
                if words in " ".join(Page(html).text.split()):
                    return str(html)
    raise AssertionError(words)


async def test_ten_watchers_hear_of_a_change_through_one_connection(
    operator: Visitor, mq: Caller
) -> None:
    mq("create_queue", "q", "t")
    watching = streams(operator, 10)
    await asyncio.gather(*(until_told(stream, "0 waiting") for stream in watching))
    mq.publish_many("t", [1, 2, 3])
    answers = await asyncio.gather(*(until_told(stream, "3 waiting") for stream in watching))
    assert len(answers) == 10
    assert mq.value(SESSIONS) == 1
    for stream in watching:
        await stream.aclose()  # type: ignore[attr-defined]
    assert operator.app.state.dashboard.poller.watchers == 0


async def test_nobody_watching_means_nobody_asking(operator: Visitor, mq: Caller) -> None:
    poller: Any = operator.app.state.dashboard.poller
    (stream,) = streams(operator, 1)
    await until_told(stream, "No queue yet")
    await stream.aclose()  # type: ignore[attr-defined]
    async with asyncio.timeout(60):
        await poller._task
    assert poller._task.done()


async def test_a_lost_connection_is_made_again(operator: Visitor, mq: Caller) -> None:
    mq("create_queue", "q", "t")
    (stream,) = streams(operator, 1, "queue")
    await until_told(stream, "Waiting0")
    mq.query(
        "select pg_terminate_backend(pid) from pg_stat_activity "
        "where application_name = 'penstock dashboard'"
    )
    mq.publish("t")
    await until_told(stream, "Waiting1")
    await stream.aclose()  # type: ignore[attr-defined]


async def test_stopping_ends_every_stream(operator: Visitor) -> None:
    watching = streams(operator, 3, "workers")
    await asyncio.gather(*(until_told(stream, "No consumer holds") for stream in watching))
    await operator.app.state.dashboard.poller.stop()
    async with asyncio.timeout(60):
        for stream in watching:
            async for _ in stream:
                pass


async def test_a_stream_ends_with_its_session(operator: Visitor) -> None:
    dashboard = operator.app.state.dashboard
    stream = events._events(dashboard, events._Rendered(), "overview", "", 1)
    async with asyncio.timeout(60):
        assert [event async for event in stream] == ["retry: 3000\n\n"]


async def test_what_came_and_went_is_told_per_second(operator: Visitor, mq: Caller) -> None:
    mq("create_queue", "q", "t")
    poller: Any = operator.app.state.dashboard.poller
    (stream,) = streams(operator, 1, "queue")
    await until_told(stream, "Waiting0")
    mq.publish_many("t", list(range(40)))
    mq.drain("q")
    async with asyncio.timeout(60):
        while not poller.samples.latency("q", "works"):
            await anext(stream)
    flows = [flow for _, flow in poller.samples.flows("q")]
    assert sum(flow.done for flow in flows) > 0
    assert sum(flow.came for flow in flows) > 0
    await stream.aclose()  # type: ignore[attr-defined]
