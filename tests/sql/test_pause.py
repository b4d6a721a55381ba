"""pause_queue and resume_queue: a paused queue gives out nothing, and loses nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.fixtures.clock import advance
from tests.sql.refusals import nothing_changes, refused

if TYPE_CHECKING:
    from tests.fixtures.databases import Connect
    from tests.sql.caller import Caller


@pytest.mark.parametrize("ordering", ["standard", "fifo", "fair"])
def test_a_paused_queue_gives_out_nothing_until_it_is_resumed(mq: Caller, ordering: str) -> None:
    mq("create_queue", "q", "t", ordering=ordering)
    mq.publish_many("t", [1, 2])
    mq("pause_queue", "q")
    assert mq.consume("q") == []
    assert mq.rows("consume_message", "q", "me") == []
    mq.publish("t", 3, key="other")
    assert mq.statistics("q").pending_count == 3
    assert mq("resume_queue", "q") is True
    assert sorted(mq.drain("q")) == [1, 2, 3]


def test_other_queues_of_the_topic_go_on(mq: Caller) -> None:
    mq("create_queue", "q", "t")
    mq("create_queue", "other", "t")
    mq("pause_queue", "q")
    mq.publish("t", 1)
    assert mq.payloads("other") == [1]


def test_what_is_claimed_can_be_finished_while_the_queue_is_paused(mq: Caller) -> None:
    mq("create_queue", "q", "t")
    mq.publish_many("t", [1, 2, 3])
    first, second, third = [row.message_id for row in mq.consume("q")]
    mq("pause_queue", "q")
    assert mq.ack("q", first)
    assert mq.nack("q", second, delay_seconds=0)
    assert mq("extend_message_vt", "q", third, "me", 60) is not None
    assert mq.consume("q") == []
    mq("resume_queue", "q")
    assert mq.payloads("q") == [2]


def test_a_claim_that_ends_in_the_pause_comes_back_after_it(mq: Caller) -> None:
    mq("create_queue", "q", "t")
    message = mq.publish("t", 1)
    mq.consume("q", vt=5)
    mq("pause_queue", "q")
    advance(mq.db, seconds=60)
    assert mq.consume("q", token="later") == []
    assert not mq.ack("q", message)
    mq("resume_queue", "q")
    assert [row.delivery_attempts for row in mq.consume("q", token="later")] == [2]


def test_pausing_twice_keeps_the_first_moment_and_resuming_twice_says_so(mq: Caller) -> None:
    mq("create_queue", "q")
    since = mq("pause_queue", "q")
    advance(mq.db, seconds=60)
    assert mq("pause_queue", "q") == since
    assert [row.paused_at for row in mq.rows("list_queues")] == [since]
    assert mq("resume_queue", "q") is True
    assert mq("resume_queue", "q") is False
    assert [row.paused_at for row in mq.rows("list_queues")] == [None]


def test_a_sleeper_has_nothing_to_wake_for_while_the_queue_is_paused(mq: Caller) -> None:
    mq("create_queue", "q", "t")
    mq.publish("t", 1)
    assert mq("get_next_visible_time", "q") is not None
    mq("pause_queue", "q")
    assert mq("get_next_visible_time", "q") is None


def test_resuming_wakes_whoever_waits(mq: Caller, connect: Connect) -> None:
    mq("create_queue", "q", "t")
    mq("pause_queue", "q")
    sleeper = connect()
    channel = mq("start_waiting", "q", 30)
    sleeper.execute(f'listen "{channel}"')
    mq("resume_queue", "q")
    assert [note.channel for note in sleeper.notifies(timeout=30, stop_after=1)] == [channel]


def test_the_same_queue_created_again_stays_paused(mq: Caller) -> None:
    mq("create_queue", "q", "t")
    mq("pause_queue", "q")
    mq("create_queue", "q", "t")
    mq.publish("t", 1)
    assert mq.consume("q") == []


@pytest.mark.parametrize("function", ["pause_queue", "resume_queue"])
def test_a_queue_that_does_not_exist_is_named(mq: Caller, function: str) -> None:
    with nothing_changes(mq.db), refused("PS002"):
        mq(function, "nowhere")
