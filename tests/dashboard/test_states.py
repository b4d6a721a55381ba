"""One vocabulary: SQL, Python, command line, metrics and dashboard tell the same of one queue."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from prometheus_client import CollectorRegistry

from penstock import connect
from penstock.client.facts import QueueNow
from penstock.dashboard.attention import Concern, concerns
from penstock.dashboard.samples import Flow, Sample, Samples
from penstock.observe import metrics
from penstock.observe.exporter import DatabaseCollector
from penstock.postgres.call import run
from tests.acceptance.commandline import CommandLine
from tests.dashboard.visitor import Page
from tests.fixtures.clock import advance

if TYPE_CHECKING:
    from tests.dashboard.visitor import Visitor
    from tests.fixtures.databases import Database
    from tests.sql.caller import Caller

EVERY = {
    "waiting": 3,
    "blocked": 5,
    "delayed": 2,
    "retrying": 1,
    "claimed": 1,
    "done": 4,
    "dead": 6,
}
NOW = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)


@pytest.fixture
def crowd(mq: Caller) -> dict[str, int]:
    """A fifo queue with messages in all seven states, different numbers of each.

    By name: the message that is claimed, one that it blocks, and the one that is retried.
    """
    mq("create_queue", "q", "t", ordering="fifo", max_delivery_attempts=2)
    ended = mq.publish_many("t", list(range(10)), keys=[f"done {n}" for n in range(10)])
    retrying, claimed = mq.publish_many("t", [1, 2], keys=["retrying", "claimed"])
    taken = [row.message_id for row in mq.consume("q", 12, token="worker-7", vt=6000)]
    assert taken == [*ended, retrying, claimed]
    mq.column("ack_messages", "q", ended[:4], "worker-7")
    for each in ended[4:]:
        mq("bury_message", "q", each, "worker-7")
    mq.nack("q", retrying, "worker-7", delay_seconds=5000)
    for n in (1, 2):
        mq.publish("t", n, key=f"delayed {n}", deliver_after=mq.at(seconds=4000))
    blocked = mq.publish_many(
        "t", [1] * 5, keys=["claimed", "claimed", "claimed", "retrying", "delayed 2"]
    )
    mq.publish_many("t", [1] * 3, keys=["free", "free", "other"])
    advance(mq.db, seconds=400)
    return {"claimed": claimed, "blocked": blocked[0], "retrying": retrying, "last": blocked[4]}


def named(statistics: Any) -> dict[str, int]:
    """Exact counts, by the seven words."""
    of = {"claimed": "processing", "done": "completed"}
    return {state: getattr(statistics, f"{of.get(state, state)}_count") for state in EVERY}


def without(*states: str) -> dict[str, int]:
    return {state: count for state, count in EVERY.items() if state not in states}


@pytest.mark.usefixtures("crowd")
async def test_every_surface_tells_the_same_numbers(
    operator: Visitor, mq: Caller, database: Database
) -> None:
    statistics = mq.statistics("q")
    assert named(statistics) == EVERY
    now = {row.queue_name: row for row in mq.rows("queue_overview")}["q"]
    assert {state: getattr(now, state) for state in without("done")} == without("done")
    listed = {state: len(mq.rows("find_messages", "q", state)) for state in without("done")}
    assert listed == without("done")
    contents = [row.state for row in mq.rows("queue_contents", "q")]
    assert {state: contents.count(state) for state in without("dead")} == without("dead")

    process = CollectorRegistry()
    async with connect(database.dsn) as client:
        assert named(await client.queue_statistics("q")) == EVERY
        await metrics.refresh(client, metrics.Metrics(process))
    whole = CollectorRegistry()
    whole.register(DatabaseCollector(lambda call: run(mq.db, call)))  # type: ignore[arg-type]
    for registry in (process, whole):
        found = {
            state: registry.get_sample_value(
                f"penstock_queue_{'processing' if state == 'claimed' else state}", {"queue": "q"}
            )
            for state in without("done")
        }
        assert found == without("done")
        age = registry.get_sample_value(
            "penstock_queue_oldest_pending_timestamp_seconds", {"queue": "q"}
        )
        assert age == pytest.approx(now.oldest_waiting_at.timestamp())
    assert statistics.oldest_waiting_at == now.oldest_waiting_at

    command = CommandLine(database.dsn)
    (stats,) = command.ok("queue", "stats", "q", "--json").json
    assert {state: stats[state] for state in EVERY} == EVERY
    watched = command.ok("queue", "watch", "q", "--count", "1", "--json").json
    assert {state: watched[state] for state in without("done")} == without("done")

    page = await operator.shown("/queue", name="q")
    tiles = dict(re.findall(r"<span>(\w+)</span><b>([\d,]+)</b>", page))
    assert {state: int(tiles[state.title()]) for state in without("done")} == without("done")


async def test_every_surface_names_what_blocks_a_message_and_until_when(
    operator: Visitor, mq: Caller, database: Database, crowd: dict[str, int]
) -> None:
    holder = f"message {crowd['claimed']}, which is claimed by worker-7"
    until = mq.rows("find_messages", "q", "claimed")[0].visible_at.astimezone(UTC)
    command = CommandLine(database.dsn)
    told = command.ok("message", "state", "q", str(crowd["blocked"])).out
    assert told.startswith("blocked until")
    assert holder in told
    facts = command.ok("message", "state", "q", str(crowd["blocked"]), "--json").json
    shown = command.ok("message", "show", "q", str(crowd["blocked"]), "--json").json
    line = command.ok("queue", "watch", "q", "--count", "1").out
    assert f"blocked_by={crowd['claimed']}, claimed until " in line
    watched = command.ok("queue", "watch", "q", "--count", "1", "--json").json
    for each in (facts, shown, watched):
        found = (each["blocked_by"], each["blocked_by_state"], each["blocked_by_token"])
        assert found == (crowd["claimed"], "claimed", "worker-7")
        assert datetime.fromisoformat(each["blocked_until"]) == until
    assert (facts["state"], shown["states"]) == ("blocked", {"q": "blocked"})

    moment = until.strftime("%Y-%m-%d %H:%M:%S")
    message = Page(await operator.shown("/message", queue="q", id=crowd["blocked"])).text
    assert holder in message
    assert moment in message
    queue = Page(await operator.shown("/queue", name="q", state="blocked")).text
    assert f"held up until {moment} behind {holder}" in queue
    assert f"message {crowd['retrying']}, which is retrying" in queue
    assert ", which is delayed" in queue

    # The oldest message is blocked for more than five minutes.
    overview = " ".join(Page(await operator.shown("/")).text.split())
    assert f"blocked until {moment} behind {holder}" in overview
    assert "add workers" not in overview


FIFO = replace(
    QueueNow("q", "t", "fifo", None, 0, 0, 1, 0, None, None),
    blocked=500,
    blocked_by=7,
    blocked_by_state="retrying",
    blocked_until=NOW + timedelta(hours=1),
    oldest_waiting_at=NOW - timedelta(hours=2),
    oldest_blocked_at=NOW - timedelta(hours=2),
)


def attention(*queues: QueueNow) -> list[Concern]:
    """What is said of a queue that was seen so half a minute apart."""
    ring = Samples()
    for seconds, queue in zip((-50, 0), queues, strict=True):
        flow = Flow(waiting=queue.waiting, blocked=queue.blocked)
        at = NOW + timedelta(seconds=seconds)
        ring.add(Sample(1, at, 2.0, {"q": queue}, {"q": flow}, {"t": 0.0}))
    assert ring.newest is not None
    return concerns(ring.newest, ring)


def test_workers_are_not_asked_for_where_they_do_not_help() -> None:
    (concern,) = attention(FIFO, FIFO)
    assert concern.kind == "blocked"
    assert concern.what.endswith("behind message 7, which is retrying")
    assert "until 2026-01-01 13:00:00" in concern.what
    assert "workers do not help" in concern.advice
    assert concern.link == "/queue?name=q&state=blocked"
    growing = attention(replace(FIFO, blocked=100), FIFO)
    assert [each.kind for each in growing] == ["growing backlog", "blocked"]
    assert all("workers do not help" in each.advice for each in growing)


def test_workers_are_asked_for_where_the_oldest_waits() -> None:
    older = replace(FIFO, waiting=1, oldest_waiting_at=NOW - timedelta(hours=3))
    (concern,) = attention(older, older)
    assert (concern.kind, concern.advice) == ("old head", "start a worker")


def test_messages_that_become_free_are_no_growing_backlog() -> None:
    """A claim ended: what was blocked waits now, and there is no more of it than before."""
    free = replace(FIFO, waiting=500, blocked=0, oldest_blocked_at=None, blocked_by=None)
    assert "growing backlog" not in [each.kind for each in attention(FIFO, free)]
