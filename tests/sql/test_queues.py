"""create_queue, delete_queue, list_queues, keep-alives, start positions, purge_queue."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

from tests.fixtures.clock import advance
from tests.fixtures.maintenance import maintain
from tests.sql.refusals import nothing_changes, refused

if TYPE_CHECKING:
    from tests.sql.caller import Caller


def test_queue_without_a_topic_gets_a_topic_of_its_own_name(mq: Caller) -> None:
    mq("create_queue", "billing")
    assert [(q.name, q.topic_name) for q in mq.rows("list_queues")] == [("billing", "billing")]
    mq.publish("billing", "hello")
    assert mq.payloads("billing") == ["hello"]


def test_every_message_reaches_every_queue_of_its_topic(mq: Caller) -> None:
    for name in ("billing", "shipping", "audit"):
        mq("create_queue", name, "orders")
    mq("create_queue", "elsewhere")
    mq.publish_many("orders", [1, 2, 3])
    for name in ("billing", "shipping", "audit"):
        assert mq.payloads(name) == [1, 2, 3]
    assert mq.payloads("elsewhere") == []


def test_create_queue_with_the_same_settings_returns_the_same_id(mq: Caller) -> None:
    settings: dict[str, Any] = {
        "max_delivery_attempts": 7,
        "ordering": "fair",
        "retry_base_seconds": Decimal("2.5"),
        "retry_cap_seconds": 60,
        "retention": timedelta(hours=1),
        "filter": {"headers": {"a": 1}},
        "notify": "always",
    }
    assert mq("create_queue", "q", "t", **settings) == mq("create_queue", "q", "t", **settings)


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("topic_name", "other"),
        ("exclusive", True),
        ("max_delivery_attempts", 4),
        ("ordering", "fifo"),
        ("retry_base_seconds", 2),
        ("retry_cap_seconds", 2),
        ("retention", timedelta(days=1)),
        ("filter", {"headers": {"a": 1}}),
        ("notify", "never"),
    ],
)
def test_create_queue_with_other_settings_names_the_difference(
    mq: Caller, setting: str, value: Any
) -> None:
    mq("create_topic", "other")
    mq("create_queue", "q", topic_name="t")
    with nothing_changes(mq.db), refused("PS006", "'q'", setting):
        mq("create_queue", "q", **{"topic_name": "t", setting: value})


def test_list_queues_tells_every_setting(mq: Caller) -> None:
    mq(
        "create_queue",
        "q",
        "t",
        True,
        5,
        60,
        ordering="fifo",
        retry_base_seconds=Decimal("0.5"),
        notify="never",
    )
    (row,) = mq.rows("list_queues")
    assert (row.name, row.topic_name) == ("q", "t")
    assert (row.exclusive, row.max_delivery_attempts) == (True, 5)
    assert (row.ordering, row.notify, row.retention, row.filter) == ("fifo", "never", None, None)
    assert (float(row.retry_base_seconds), float(row.retry_cap_seconds)) == (0.5, 300)
    assert row.keep_alive_until - row.created_at > timedelta(seconds=59)


def test_queue_created_at_the_end_gets_only_what_comes_later(mq: Caller) -> None:
    mq("create_topic", "t")
    mq.publish("t", "before")
    mq("create_queue", "q", "t")
    mq.publish("t", "after")
    assert mq.payloads("q") == ["after"]


@pytest.mark.parametrize("ordering", ["standard", "fifo", "fair"])
def test_queue_created_at_the_beginning_gets_all_that_the_log_holds(
    mq: Caller, ordering: str
) -> None:
    mq("create_topic", "t")
    mq.publish_many("t", [1, 2])
    mq("create_queue", "q", "t", start_at="beginning", ordering=ordering)
    mq.publish("t", 3)
    assert sorted(mq.drain("q")) == [1, 2, 3]


@pytest.mark.parametrize("ordering", ["standard", "fair"])
def test_queue_created_at_the_beginning_begins_with_the_highest_priority(
    mq: Caller, ordering: str
) -> None:
    mq("create_topic", "t")
    mq.publish("t", "plain")
    mq.publish("t", "urgent", priority=5)
    mq.rows("maintain")  # no queue wants to know of it, so it is forgotten that there is a priority
    mq("create_queue", "q", "t", start_at="beginning", ordering=ordering)
    assert mq.payloads("q", 1) == ["urgent"]


@pytest.mark.parametrize("ordering", ["standard", "fifo", "fair"])
def test_queue_created_at_a_time_gets_what_was_published_since(mq: Caller, ordering: str) -> None:
    mq("create_topic", "t")
    mq.publish("t", "long ago")
    advance(mq.db, seconds=3600)
    since = mq.value("select (clock_timestamp() + interval '59 min')::text")
    mq.publish("t", "lately")
    mq.publish("t", "lately, first", priority=5)
    mq("create_queue", "q", "t", start_at=since, ordering=ordering)
    mq.publish("t", "now")
    assert mq.statistics("q").pending_count == 3
    assert sorted(mq.drain("q")) == ["lately", "lately, first", "now"]


def test_delete_queue_leaves_the_topic_and_its_other_queues(mq: Caller) -> None:
    mq("create_queue", "billing", "orders")
    mq("create_queue", "shipping", "orders")
    mq.publish("orders", "m")
    mq("delete_queue", "billing")
    assert [q.name for q in mq.rows("list_queues")] == ["shipping"]
    assert mq.payloads("shipping") == ["m"]
    with refused("PS002"):
        mq.consume("billing")
    with refused("PS002", "'billing'"):
        mq("delete_queue", "billing")


@pytest.mark.parametrize("ordering", ["standard", "fifo", "fair"])
def test_queue_created_again_after_deletion_has_nothing_of_the_old_one(
    mq: Caller, ordering: str
) -> None:
    settings = {"max_delivery_attempts": 1, "ordering": ordering, "notify": "always"}
    mq("create_queue", "q", "t", **settings)
    for number in range(6):
        mq.publish("t", "old", key=str(number))
    claimed = mq.consume("q", 3)
    mq.nack("q", claimed[0].message_id)
    mq.ack("q", claimed[1].message_id)
    mq("delete_queue", "q")
    mq("create_queue", "q", "t", **settings)
    assert mq.statistics("q")[:6] == (0, 0, 0, 0, 0, 0)
    assert not mq.ack("q", claimed[2].message_id)
    assert mq.rows("list_dlq_messages") == []
    mq.publish("t", "new", key="0")
    assert mq.payloads("q") == ["new"]


def test_exclusive_queue_ends_when_it_is_not_kept_alive(mq: Caller) -> None:
    mq("create_queue", "mine", "t", exclusive=True, keep_alive_seconds=60)
    mq.publish("t", 1)
    advance(mq.db, seconds=59)
    assert len(mq.consume("mine")) == 1
    advance(mq.db, seconds=2)
    with refused("PS008", "'mine'"):
        mq.consume("mine")
    assert mq("cleanup_expired_exclusive_queues") == 1
    with refused("PS002"):
        mq.consume("mine")
    assert [t.name for t in mq.rows("list_topics")] == ["t"]


def test_extend_queue_keep_alive_returns_the_new_end(mq: Caller) -> None:
    mq("create_queue", "mine", exclusive=True, keep_alive_seconds=60)
    advance(mq.db, seconds=50)
    until = mq("extend_queue_keep_alive", "mine", 60)
    assert [q.keep_alive_until for q in mq.rows("list_queues")] == [until]
    advance(mq.db, seconds=50)
    assert mq.consume("mine") == []
    advance(mq.db, seconds=11)
    with refused("PS008"):
        mq("extend_queue_keep_alive", "mine", 60)


def test_extend_queue_keep_alive_is_only_for_exclusive_queues(mq: Caller) -> None:
    mq("create_queue", "q")
    with nothing_changes(mq.db), refused("PS005", "'q'", "not exclusive"):
        mq("extend_queue_keep_alive", "q", 60)


def test_cleanup_expired_exclusive_queues_leaves_the_living(mq: Caller) -> None:
    mq("create_queue", "short", exclusive=True, keep_alive_seconds=10)
    mq("create_queue", "long", exclusive=True, keep_alive_seconds=100)
    mq("create_queue", "plain")
    assert mq("cleanup_expired_exclusive_queues") == 0
    advance(mq.db, seconds=11)
    assert mq("cleanup_expired_exclusive_queues") == 1
    assert [q.name for q in mq.rows("list_queues")] == ["long", "plain"]


def test_maintain_deletes_ended_exclusive_queues(mq: Caller) -> None:
    mq("create_queue", "mine", exclusive=True, keep_alive_seconds=10)
    advance(mq.db, seconds=11)
    done = maintain(mq.db)
    assert done["exclusive queues deleted"] == 1
    assert mq.rows("list_queues") == []


def test_ended_exclusive_queue_can_be_created_again(mq: Caller) -> None:
    old = mq("create_queue", "mine", "t", exclusive=True, keep_alive_seconds=10)
    mq.publish("t", "old")
    advance(mq.db, seconds=11)
    new = mq("create_queue", "mine", "t", exclusive=True, keep_alive_seconds=10)
    assert new != old
    mq.publish("t", "new")
    assert mq.payloads("mine") == ["new"]


def test_ended_exclusive_queue_can_be_created_again_with_other_settings(mq: Caller) -> None:
    mq("create_queue", "mine", "t", exclusive=True, keep_alive_seconds=10)
    advance(mq.db, seconds=11)
    mq("create_queue", "mine", "t", ordering="fifo")
    assert mq.payloads("mine") == []


@pytest.mark.parametrize("ordering", ["standard", "fifo", "fair"])
def test_purge_queue_drops_what_is_not_done_and_says_how_much(mq: Caller, ordering: str) -> None:
    mq("create_queue", "q", "t", ordering=ordering, max_delivery_attempts=1)
    mq("create_queue", "other", "t")
    ids = [mq.publish("t", n, key=str(n)) for n in range(6)]
    mq.publish(
        "t", "later", key="later", deliver_after=mq.value("select now() + interval '1 hour'")
    )
    claimed = [row.message_id for row in mq.consume("q", 3)]
    mq.ack("q", claimed[0])
    mq.nack("q", claimed[1])
    assert mq("purge_queue", "q") == 5
    after = mq.statistics("q")
    assert (after.pending_count, after.processing_count) == (0, 0)
    assert (after.completed_count, after.dead_count) == (1, 1)
    assert not mq.ack("q", claimed[2])
    assert mq.payloads("q") == []
    mq.publish("t", "new", key="0")
    assert mq.drain("q") == ["new"]
    assert len(mq.consume("other")) == len(ids) + 1
    advance(mq.db, seconds=3700)
    assert mq.payloads("q") == []


def test_purge_all_messages_empties_everything_and_keeps_topics_and_queues(mq: Caller) -> None:
    mq("create_queue", "q", "t", max_delivery_attempts=1)
    mq("create_queue", "lanes", "t", ordering="fifo")
    mq.publish_many("t", [1, 2, 3, 4], dedupe_keys=["a", "b", "c", "d"])
    claimed = mq.consume("q", 3)
    mq.ack("q", claimed[0].message_id)
    mq.nack("q", claimed[1].message_id)
    mq.consume("lanes", 1)
    mq("purge_all_messages")
    assert mq.value("select count(*) from penstock.messages") == 0
    assert mq.value("select count(*) from penstock.queue_messages") == 0
    assert mq.rows("list_dlq_messages") == []
    assert len(mq.rows("list_queues")) == 2
    mq.publish("t", "new", dedupe_key="a")
    assert (mq.payloads("q"), mq.payloads("lanes")) == (["new"], ["new"])
