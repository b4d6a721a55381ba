"""Priorities and delays: ahead of any backlog, and not before their time."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from tests.fixtures.clock import advance
from tests.fixtures.maintenance import maintain

if TYPE_CHECKING:
    from tests.sql.caller import Caller


@pytest.fixture(autouse=True)
def queue(mq: Caller) -> None:
    mq("create_queue", "q", "t", max_delivery_attempts=0)


def test_higher_priority_comes_first_then_log_order(mq: Caller) -> None:
    for payload, priority in [("a", 0), ("b", 5), ("c", -3), ("d", 9), ("e", 5), ("f", 0)]:
        mq.publish("t", payload, priority=priority)
    assert mq.payloads("q", 10) == ["d", "b", "e", "a", "f", "c"]


@pytest.mark.parametrize("ordering", ["standard", "fair"])
def test_priorities_hold_over_single_claims(mq: Caller, ordering: str) -> None:
    mq("create_queue", "o", "t", ordering=ordering)
    for payload, priority in [("a", 0), ("b", 5), ("c", -3), ("d", 9), ("e", 5), ("f", 0)]:
        mq.publish("t", payload, priority=priority)
    assert [mq.payloads("o", 1)[0] for _ in range(6)] == ["d", "b", "e", "a", "f", "c"]


def test_priority_message_does_not_wait_behind_a_backlog(mq: Caller) -> None:
    mq.publish_many("t", list(range(500)))
    assert mq.payloads("q", 3) == [0, 1, 2]
    mq.publish("t", "urgent", priority=1)
    assert mq.payloads("q", 3) == ["urgent", 3, 4]


def test_low_priority_message_waits_until_the_log_is_empty(mq: Caller) -> None:
    mq.publish("t", "whenever", priority=-1)
    mq.publish_many("t", [1, 2, 3])
    assert mq.payloads("q", 2) == [1, 2]
    mq.publish("t", 4)
    assert mq.payloads("q", 5) == [3, 4, "whenever"]


def test_retry_keeps_the_priority_of_its_message(mq: Caller) -> None:
    low = mq.publish("t", "low", priority=-5)
    high = mq.publish("t", "high", priority=5)
    assert len(mq.consume("q")) == 2
    for message_id in (low, high):
        mq.nack("q", message_id, delay_seconds=0)
    mq.publish("t", "plain")
    found = [(row.payload, row.priority) for row in mq.consume("q")]
    assert found == [("high", 5), ("plain", 0), ("low", -5)]


def test_delayed_message_is_not_given_before_its_time(mq: Caller) -> None:
    due = mq.at(seconds=60)
    message_id = mq.publish("t", "later", deliver_after=due)
    assert mq.consume("q") == []
    assert mq.state("q", message_id) == "delayed"
    advance(mq.db, seconds=59)
    assert mq.consume("q") == []
    advance(mq.db, seconds=2)
    assert [(r.payload, r.delivery_attempts) for r in mq.consume("q")] == [("later", 1)]


def test_delay_in_the_past_is_no_delay(mq: Caller) -> None:
    mq.publish("t", 1)
    mq.publish("t", 2, deliver_after=mq.at(seconds=-60))
    assert mq.payloads("q") == [1, 2]


def test_delayed_messages_come_by_due_time(mq: Caller) -> None:
    for payload, seconds in [("c", 30), ("a", 10), ("b", 20)]:
        mq.publish("t", payload, deliver_after=mq.at(seconds=seconds))
    assert mq.consume("q") == []
    advance(mq.db, seconds=31)
    assert mq.payloads("q") == ["a", "b", "c"]


def test_message_that_became_due_goes_ahead_of_the_backlog(mq: Caller) -> None:
    mq.publish("t", "due", deliver_after=mq.at(seconds=10))
    mq.publish_many("t", list(range(100)))
    assert mq.payloads("q", 2) == [0, 1]
    advance(mq.db, seconds=11)
    assert mq.payloads("q", 2) == ["due", 2]


def test_delay_and_priority_together(mq: Caller) -> None:
    mq.publish("t", "soon", deliver_after=mq.at(seconds=10), priority=1)
    mq.publish("t", "urgent, later", deliver_after=mq.at(seconds=20), priority=9)
    mq.publish("t", "plain")
    assert mq.payloads("q") == ["plain"]
    advance(mq.db, seconds=21)
    assert mq.payloads("q", 2) == ["urgent, later", "soon"]


def test_a_message_delayed_for_one_queue_is_delayed_for_all(mq: Caller) -> None:
    mq("create_queue", "lanes", "t", ordering="fifo")
    mq("create_queue", "turns", "t", ordering="fair")
    mq.publish("t", 1, deliver_after=mq.at(seconds=10))
    assert [mq.consume(name) for name in ("q", "lanes", "turns")] == [[], [], []]
    advance(mq.db, seconds=11)
    assert [mq.payloads(name) for name in ("q", "lanes", "turns")] == [[1], [1], [1]]


def test_get_next_visible_time_tells_when_a_claim_finds_something(mq: Caller) -> None:
    assert mq("get_next_visible_time", "q") is None
    mq.publish("t", "now")
    assert abs(mq("get_next_visible_time", "q") - mq.at(seconds=0)) < timedelta(seconds=5)
    (claimed,) = mq.consume("q", vt=600)
    assert mq("get_next_visible_time", "q") == claimed.vt
    due = mq.at(seconds=60)
    mq.publish("t", "later", deliver_after=due)
    assert mq.consume("q") == []
    assert mq("get_next_visible_time", "q") == due
    mq.publish("t", "much later", deliver_after=mq.at(seconds=120), priority=7)
    assert mq.consume("q") == []
    assert mq("get_next_visible_time", "q") == due
    advance(mq.db, seconds=121)
    assert len(mq.consume("q")) == 2
    mq("purge_queue", "q")
    assert mq("get_next_visible_time", "q") is None


def test_get_next_visible_time_knows_the_retry_of_a_priority(mq: Caller) -> None:
    message_id = mq.publish("t", 1, priority=7)
    mq.consume("q")
    mq.nack("q", message_id, delay_seconds=100)
    wait = mq("get_next_visible_time", "q") - mq.at(seconds=0)
    assert timedelta(seconds=90) < wait <= timedelta(seconds=100)


def test_many_priorities_at_once(mq: Caller) -> None:
    levels = list(range(-40, 41))
    mq.publish_many("t", levels, priorities=levels)
    seen = []
    while found := mq.payloads("q", 7):
        seen += found
    assert seen == sorted(levels, reverse=True)


def test_late_floor_does_not_hide_a_message_scheduled_below_it(mq: Caller) -> None:
    message_id = mq.publish("t", 1)
    mq.consume("q", vt=5)
    for _ in range(3):
        advance(mq.db, seconds=1)
        mq.publish("t", "other")
        mq.consume("q", token="other", vt=600)
    advance(mq.db, seconds=3)
    maintain(mq.db)
    assert [r.message_id for r in mq.consume("q")] == [message_id]
