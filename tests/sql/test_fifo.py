"""ordering => 'fifo': strict order per key, one message of a key at a time."""

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
    mq("create_queue", "q", "t", ordering="fifo", max_delivery_attempts=2, retry_base_seconds=10)


def publish(mq: Caller, *payloads: str, **options: object) -> list[int]:
    """Publish "a1" with the key "a"."""
    return [mq.publish("t", payload, key=payload[0], **options) for payload in payloads]


def test_next_message_of_a_key_waits_until_the_one_before_is_acked(mq: Caller) -> None:
    ids = publish(mq, "a1", "a2")
    assert mq.payloads("q") == ["a1"]
    assert mq.payloads("q") == []
    assert mq.ack("q", ids[0])
    assert mq.payloads("q") == ["a2"]


def test_keys_do_not_wait_for_each_other(mq: Caller) -> None:
    publish(mq, "a1", "a2", "b1", "b2", "c1")
    assert sorted(mq.payloads("q")) == ["a1", "b1", "c1"]


def test_order_of_every_key_holds_through_to_the_end(mq: Caller) -> None:
    published = [f"{key}{n}" for n in range(30) for key in "abc"]
    publish(mq, *published)
    seen = mq.drain("q", batch=2)
    assert sorted(seen) == sorted(published)
    for key in "abc":
        assert [p for p in seen if p[0] == key] == [f"{key}{n}" for n in range(30)]


def test_messages_without_a_key_are_one_key(mq: Caller) -> None:
    first = mq.publish("t", 1)
    mq.publish("t", 2)
    assert mq.payloads("q") == [1]
    assert mq.payloads("q") == []
    mq.ack("q", first)
    assert mq.payloads("q") == [2]


def test_retry_of_the_head_holds_its_key_back(mq: Caller) -> None:
    ids = publish(mq, "a1", "a2")
    mq.consume("q")
    mq.nack("q", ids[0], delay_seconds=60)
    assert mq.payloads("q") == []
    advance(mq.db, seconds=61)
    assert mq.payloads("q") == ["a1"]
    mq.ack("q", ids[0])
    assert mq.payloads("q") == ["a2"]


def test_expired_claim_gives_the_head_again_and_not_the_next(mq: Caller) -> None:
    publish(mq, "a1", "a2")
    mq.consume("q", vt=10)
    advance(mq.db, seconds=11)
    assert mq.payloads("q") == ["a1"]


def test_released_head_comes_again_first(mq: Caller) -> None:
    ids = publish(mq, "a1", "a2")
    mq.consume("q")
    mq("release_message", "q", ids[0], "me")
    assert mq.payloads("q") == ["a1"]


def test_dead_head_makes_way_for_the_next(mq: Caller) -> None:
    ids = publish(mq, "a1", "a2")
    for _ in range(2):
        assert mq.payloads("q") == ["a1"]
        mq.nack("q", ids[0], delay_seconds=0)
    assert mq.state("q", ids[0]) == "dead"
    assert mq.payloads("q") == ["a2"]


def test_head_that_dies_by_expiry_makes_way_for_the_next(mq: Caller) -> None:
    publish(mq, "a1", "a2")
    for _ in range(2):
        assert mq.payloads("q", vt=10) == ["a1"]
        advance(mq.db, seconds=11)
    assert mq.payloads("q") == ["a2"]
    assert mq.payloads("q") == []


def test_key_that_a_dead_head_freed_is_not_freed_again(mq: Caller) -> None:
    publish(mq, "a1", "a2", "a3")
    for _ in range(2):
        assert mq.payloads("q", vt=10) == ["a1"]
        advance(mq.db, seconds=11)
    (second,) = mq.consume("q", 10, vt=600)
    assert second.payload == "a2"
    publish(mq, "b1")
    assert mq.payloads("q", 10) == ["b1"]
    mq.ack("q", second.message_id)
    assert mq.payloads("q", 10) == ["a3"]


def test_lapsed_head_makes_way_for_the_next(mq: Caller) -> None:
    (head,) = publish(mq, "a1", expires_at=mq.at(seconds=30))
    publish(mq, "a2")
    mq.consume("q")
    mq.nack("q", head, delay_seconds=60)
    advance(mq.db, seconds=61)
    assert mq.payloads("q") + mq.payloads("q") == ["a2"]


def test_lapsed_messages_in_the_line_are_passed_over(mq: Caller) -> None:
    (head,) = publish(mq, "a1")
    publish(mq, "a2", expires_at=mq.at(seconds=30))
    publish(mq, "a3")
    mq.consume("q", vt=600)
    advance(mq.db, seconds=31)
    mq.ack("q", head)
    assert mq.payloads("q") + mq.payloads("q") == ["a3"]


def test_delayed_message_holds_its_key_but_no_other(mq: Caller) -> None:
    publish(mq, "a1", deliver_after=mq.at(seconds=60))
    publish(mq, "a2", "b1")
    assert mq.payloads("q") == ["b1"]
    advance(mq.db, seconds=61)
    assert sorted(mq.payloads("q")) == ["a1", "b1"]


def test_priority_orders_keys_and_never_messages_of_a_key(mq: Caller) -> None:
    publish(mq, "a1")
    publish(mq, "a2", priority=9)
    publish(mq, "b1", priority=5)
    assert mq.payloads("q") == ["b1", "a1"]


def test_key_that_waited_longest_comes_first(mq: Caller) -> None:
    ids = dict(zip(["a1", "b1"], publish(mq, "a1", "b1"), strict=True))
    publish(mq, "a2", "b2")
    assert mq.payloads("q", 1) == ["a1"]
    mq.ack("q", ids["a1"])
    assert mq.payloads("q", 1) == ["b1"]
    assert mq.payloads("q", 1) == ["a2"]


def test_message_that_comes_while_its_key_is_busy_waits(mq: Caller) -> None:
    (head,) = publish(mq, "a1")
    assert mq.payloads("q") == ["a1"]
    publish(mq, "a2", "b1")
    assert mq.payloads("q") == ["b1"]
    mq.ack("q", head)
    assert mq.payloads("q") == ["a2"]


def test_ack_of_a_batch_frees_all_its_keys(mq: Caller) -> None:
    publish(mq, "a1", "b1", "c1", "a2", "b2", "c2")
    heads = [row.message_id for row in mq.consume("q")]
    assert len(mq.column("ack_messages", "q", heads, "me")) == 3
    assert sorted(mq.payloads("q")) == ["a2", "b2", "c2"]


def test_ack_of_one_in_a_batch_frees_just_its_key(mq: Caller) -> None:
    publish(mq, "a1", "b1", "a2", "b2")
    rows = {row.payload: row.message_id for row in mq.consume("q")}
    mq.ack("q", rows["b1"])
    assert mq.payloads("q") == ["b2"]


def test_requeued_dead_letter_goes_to_the_end_of_its_key(mq: Caller) -> None:
    ids = publish(mq, "a1", "a2", "a3")
    mq.consume("q")
    mq("bury_message", "q", ids[0], "me")
    assert mq("requeue_dlq_messages", "q") == 1
    assert mq.drain("q", batch=1) == ["a2", "a3", "a1"]


def test_next_of_a_key_is_announced_by_get_next_visible_time(mq: Caller) -> None:
    ids = publish(mq, "a1", "a2")
    mq.consume("q")
    mq.ack("q", ids[0])
    due = mq("get_next_visible_time", "q")
    assert due is not None
    assert due - mq.at(seconds=0) < timedelta(seconds=1)


def test_counts_include_the_messages_behind_the_head(mq: Caller) -> None:
    publish(mq, "a1", "a2", "a3", "b1")
    mq.consume("q")
    found = mq.statistics("q")
    assert (found.pending_count, found.processing_count, found.total_count) == (2, 2, 4)
    counts = [(row.key, row.message_count) for row in mq.rows("key_counts", "q")]
    assert counts == [("a", 3), ("b", 1)]


def test_key_is_freed_though_its_history_was_cleaned_up_before(mq: Caller) -> None:
    ids = publish(mq, "a1", "a2", "a3")
    mq.consume("q")
    mq.ack("q", ids[0])
    assert mq("cleanup_queue_messages", "q") == 1
    assert mq.statistics("q").completed_count == 0
    assert mq.payloads("q") == ["a2"]
    mq.ack("q", ids[1])
    mq.db.execute("delete from penstock.queue_messages where status = 'completed'")
    assert mq.statistics("q").completed_count == 0
    assert mq.payloads("q") == ["a3"]


def test_idle_keys_are_forgotten_and_work_again(mq: Caller) -> None:
    publish(mq, *[f"{key}1" for key in "abcdef"])
    mq.drain("q")
    mq.consume("q")
    advance(mq.db, seconds=700)
    done = maintain(mq.db)
    assert done["lanes trimmed"] == 6
    publish(mq, "a2", "a3")
    assert mq.drain("q", batch=1) == ["a2", "a3"]
