"""Segments: rotation by size and age, stragglers, TRUNCATE, growth, retention."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from tests.fixtures.clock import advance
from tests.fixtures.maintenance import maintain

if TYPE_CHECKING:
    from tests.fixtures.databases import Connect
    from tests.sql.caller import Caller

DAY = 86_400


@pytest.fixture(autouse=True)
def queue(mq: Caller) -> None:
    mq("create_queue", "q", "t")
    mq("configure", "segment_bytes", "1")


def current(mq: Caller, kind: str = "message") -> int:
    settings = dict(mq.query("select * from penstock.configuration()"))
    return int(settings[f"{kind}_segment"])


def stored(mq: Caller, segment: int) -> int:
    """How many bytes the table of a message segment has."""
    return int(mq.value(f"select pg_relation_size('penstock_data.messages_{segment}')"))


def test_log_is_switched_when_its_segment_is_large(mq: Caller) -> None:
    mq("configure", "segment_bytes", "100000")
    mq.publish("t", 1)
    assert maintain(mq.db)["segments switched"] == 0
    mq.publish_many("t", ["x" * 1000] * 200)
    assert maintain(mq.db)["segments switched"] == 1
    assert current(mq) == 2


def test_log_is_switched_when_its_segment_is_old(mq: Caller) -> None:
    # The first segment is as old as the template of the test's database.
    mq("configure", "segment_bytes", None)
    mq.publish_many("t", ["x" * 1000] * 200)
    advance(mq.db, seconds=DAY // 2)
    assert maintain(mq.db)["segments switched"] == 0
    advance(mq.db, seconds=DAY // 2)
    assert maintain(mq.db)["segments switched"] == 1


def test_old_segment_with_next_to_nothing_in_it_is_not_switched(mq: Caller) -> None:
    mq("configure", "segment_bytes", None)
    mq.publish("t", 1)
    advance(mq.db, seconds=100 * DAY)
    assert maintain(mq.db)["segments switched"] == 0


def test_segment_that_everybody_has_read_is_emptied(mq: Caller) -> None:
    mq.publish_many("t", ["x" * 100] * 100)
    mq.drain("q")
    assert stored(mq, 1) > 0
    assert maintain(mq.db)["segments emptied"] >= 1
    assert stored(mq, 1) == 0
    assert mq.value("select count(*) from penstock.messages") == 0


def test_segment_of_a_topic_without_queues_is_emptied(mq: Caller) -> None:
    mq("delete_queue", "q")
    mq.publish_many("t", [1, 2])
    maintain(mq.db)
    assert stored(mq, 1) == 0


@pytest.mark.parametrize("ordering", ["standard", "fifo", "fair"])
def test_unread_messages_keep_their_segment(mq: Caller, ordering: str) -> None:
    mq("create_queue", "o", "t", ordering=ordering)
    for number in range(5):
        mq.publish("t", number, key=str(number), priority=number % 2)
    mq.drain("q")
    for _ in range(3):
        maintain(mq.db)
        mq.publish("t", "next", key="next")
    assert stored(mq, 1) > 0
    assert mq.statistics("o").pending_count == 8
    assert sorted(map(str, mq.drain("o"))) == ["0", "1", "2", "3", "4", "next", "next", "next"]
    mq.drain("q")
    maintain(mq.db)
    assert stored(mq, 1) == 0


@pytest.mark.parametrize("ordering", ["standard", "fifo", "fair"])
def test_stragglers_keep_their_message_when_their_segment_is_emptied(
    mq: Caller, ordering: str
) -> None:
    mq("delete_queue", "q")
    mq("create_queue", "q", "t", ordering=ordering)
    options = {"headers": {"h": 1}, "correlation_id": "c", "tenant_id": "x"}
    claimed = mq.publish("t", "claimed", key="a", **options)
    retried = mq.publish("t", "retried", key="b", **options)
    mq.publish("t", "behind", key="a", **options)
    mq.publish("t", "delayed", key="c", deliver_after=mq.at(seconds=600), **options)
    assert len(mq.consume("q", 10, vt=300)) >= 2
    mq.nack("q", retried, delay_seconds=200)
    maintain(mq.db)
    assert stored(mq, 1) == 0
    assert mq.statistics("q").total_count == 4
    browsed = {r.payload for r in mq.rows("browse_messages", "q")}
    assert browsed == {"claimed", "retried", "behind", "delayed"}

    assert mq.ack("q", claimed)
    advance(mq.db, seconds=601)
    seen = []
    while found := mq.consume("q", 10):
        seen += [(r.payload, r.headers, r.correlation_id, r.tenant_id) for r in found]
        mq.column("ack_messages", "q", [r.message_id for r in found], "me")
    assert sorted(seen) == [(p, {"h": 1}, "c", "x") for p in ("behind", "delayed", "retried")]


def test_kept_stragglers_are_dropped_when_they_are_done(mq: Caller) -> None:
    message_id = mq.publish("t", 1)
    mq.consume("q", vt=300)
    maintain(mq.db)
    assert mq.value("select count(*) from penstock.messages") == 1
    assert mq.ack("q", message_id)
    assert maintain(mq.db)["kept messages dropped"] == 1
    assert mq.value("select count(*) from penstock.messages") == 0


def test_straggler_of_one_queue_may_be_dead_in_another(mq: Caller) -> None:
    mq("create_queue", "other", "t", max_delivery_attempts=1)
    message_id = mq.publish("t", {"big": "x" * 100})
    mq.consume("q", vt=300)
    mq.consume("other", vt=300)
    maintain(mq.db)
    mq.nack("other", message_id)
    mq.ack("q", message_id)
    maintain(mq.db)
    (dead,) = mq.rows("list_dlq_messages", "other")
    assert dead.payload == {"big": "x" * 100}
    mq("requeue_dlq_messages", "other")
    maintain(mq.db)
    assert mq.payloads("other") == [{"big": "x" * 100}]


def test_message_can_die_after_its_segment_was_emptied(mq: Caller) -> None:
    mq("create_queue", "once", "t", max_delivery_attempts=1)
    mq.publish("t", "payload", headers={"h": 1})
    mq.drain("q")
    mq.consume("once", vt=10)
    maintain(mq.db)
    assert stored(mq, 1) == 0
    advance(mq.db, seconds=11)
    maintain(mq.db)
    (dead,) = mq.rows("list_dlq_messages", "once")
    assert (dead.payload, dead.headers) == ("payload", {"h": 1})


def test_segments_are_added_when_all_are_in_use_until_they_are_many(mq: Caller) -> None:
    switched = []
    for number in range(8):
        mq.publish("t", number)
        switched.append(maintain(mq.db)["segments switched"] > 0)
    assert switched == [True] * 3 + [False] * 5
    assert current(mq) == 4
    assert mq.drain("q") == list(range(8))
    assert maintain(mq.db)["segments emptied"] == 3
    assert maintain(mq.db)["segments switched"] > 0
    assert mq.value("select count(*) from penstock.messages") == 0
    assert len(mq.query("select from penstock.segment_overview() where kind = 'messages'")) == 5


def test_segments_grow_with_what_waits(mq: Caller) -> None:
    """Each is at least as large as those that wait together."""
    mq("configure", "segment_bytes", "1000000")
    sizes = []
    for _ in range(20):
        mq.publish_many("t", [f"{n:030}" * 30 for n in range(300)])
        if maintain(mq.db)["segments switched"]:
            sizes.append(stored(mq, current(mq) - 1))
    assert len(sizes) == 3
    assert sizes[2] >= sizes[0] + sizes[1]


def test_segments_last_a_part_of_the_longest_retention(mq: Caller) -> None:
    mq("configure", "segment_bytes", None)
    mq("create_topic", "kept", timedelta(days=30))
    mq.publish_many("kept", ["x" * 1000] * 200)
    maintain(mq.db)
    days = 0
    while not maintain(mq.db)["segments switched"]:
        advance(mq.db, seconds=DAY)
        days += 1
    assert days == 10


def test_emptied_segments_are_used_again(mq: Caller) -> None:
    seen = set()
    for number in range(12):
        mq.publish("t", number)
        assert mq.drain("q") == [number]
        maintain(mq.db)
        seen.add(current(mq))
    assert seen <= {1, 2, 3}
    assert len(seen) > 1


def test_added_segment_has_the_indexes_of_the_others(mq: Caller) -> None:
    for number in range(4):
        mq.publish("t", number)
        maintain(mq.db)
    indexes = "select count(*) from pg_indexes where tablename = %s"
    assert mq.value(indexes, "messages_4") == mq.value(indexes, "messages_1")


def test_topic_retention_keeps_read_messages_for_late_queues(mq: Caller) -> None:
    mq("create_topic", "kept", timedelta(hours=1))
    mq("create_queue", "k", "kept")
    mq.publish_many("kept", [1, 2, 3])
    mq.drain("k")
    maintain(mq.db)
    advance(mq.db, seconds=3000)
    maintain(mq.db)
    mq("create_queue", "late", "kept", start_at="beginning")
    assert mq.drain("late") == [1, 2, 3]
    advance(mq.db, seconds=700)
    maintain(mq.db)
    mq("create_queue", "too late", "kept", start_at="beginning")
    assert mq.drain("too late") == []


def test_session_that_reads_a_segment_only_delays_its_emptying(
    mq: Caller, connect: Connect
) -> None:
    mq.publish_many("t", [1, 2])
    mq.drain("q")
    reader = connect(autocommit=False)
    reader.execute("select count(*) from penstock_data.messages_1")
    mq("configure", "segment_bytes", "1")
    before = mq.value("select clock_timestamp()")
    maintain(mq.db)
    assert mq.value("select clock_timestamp()") - before < timedelta(seconds=5)
    assert stored(mq, 1) > 0
    mq.publish("t", 3)
    assert mq.payloads("q") == [3]
    reader.commit()
    maintain(mq.db)
    assert stored(mq, 1) == 0


def test_lock_timeout_of_the_caller_survives_maintain(mq: Caller, connect: Connect) -> None:
    mq.publish("t", 1)
    mq.drain("q")
    reader = connect(autocommit=False)
    reader.execute("select count(*) from penstock_data.messages_1")
    session = connect(autocommit=False)
    session.execute("set local lock_timeout = '7s'")
    session.execute("select * from penstock.maintain()")
    assert session.execute("show lock_timeout").fetchone() == ("7s",)


def test_publisher_open_across_the_switch_loses_nothing(mq: Caller, connect: Connect) -> None:
    slow = connect(autocommit=False)
    slow.execute("select penstock.publish_message('t', '\"slow\"')")
    mq.publish("t", "quick")
    assert mq.drain("q") == ["quick"]
    for _ in range(3):
        maintain(mq.db)
        mq.publish("t", "filler")
        mq.drain("q")
    slow.commit()
    assert mq.statistics("q").pending_count == 1
    maintain(mq.db)
    assert mq.drain("q") == ["slow"]
    maintain(mq.db)
    assert stored(mq, 1) == 0


def test_reader_keeps_the_log_until_it_has_committed(mq: Caller) -> None:
    mq("create_reader", "r", "t")
    ids = mq.publish_many("t", [1, 2, 3])
    mq.drain("q")
    maintain(mq.db)
    assert [r.payload for r in mq.rows("read_window", "r")] == [1, 2, 3]
    maintain(mq.db)
    assert stored(mq, 1) > 0
    assert mq("commit_window", "r", ids[-1])
    maintain(mq.db)
    assert stored(mq, 1) == 0


def test_history_is_forgotten_after_its_retention(mq: Caller) -> None:
    mq("configure", "receipt_retention", "1 day")
    mq.publish_many("t", [1, 2])
    mq.drain("q")
    maintain(mq.db)
    assert current(mq, "receipt") == 2
    assert mq.statistics("q").completed_count == 2
    advance(mq.db, seconds=DAY - 60)
    maintain(mq.db)
    assert mq.statistics("q").completed_count == 2
    advance(mq.db, seconds=120)
    maintain(mq.db)
    assert mq.statistics("q").completed_count == 0


def test_history_that_a_fifo_key_still_needs_is_kept(mq: Caller) -> None:
    mq("create_queue", "lanes", "t", ordering="fifo")
    first = mq.publish("t", 1, key="k")
    mq.publish("t", 2, key="k")
    mq.consume("lanes")
    mq.ack("lanes", first)
    mq.drain("q")
    maintain(mq.db)
    for _ in range(3):
        advance(mq.db, seconds=10 * DAY)
        maintain(mq.db)
    assert mq.payloads("lanes") == [2]


def test_claims_work_while_maintenance_has_not_run_for_long(mq: Caller) -> None:
    for number in range(60):
        mq.publish("t", number)
        assert mq.drain("q") == [number]
    assert maintain(mq.db)["positions trimmed"] > 50
    mq.publish("t", "more")
    assert mq.payloads("q") == ["more"]
