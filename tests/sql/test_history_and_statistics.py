"""get_queue_statistics, message_state, key_counts, clean-up of history, health and maintain."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from tests.fixtures.clock import advance
from tests.fixtures.maintenance import maintain
from tests.sql.refusals import nothing_changes

if TYPE_CHECKING:
    from tests.fixtures.databases import Connect
    from tests.sql.caller import Caller

STATISTICS = [
    "pending_count",
    "processing_count",
    "completed_count",
    "total_count",
    "scheduled_count",
    "dead_count",
    "oldest_pending_at",
    "waiting_count",
    "blocked_count",
    "delayed_count",
    "retrying_count",
    "oldest_waiting_at",
]
STEPS = [
    "claims taken back",
    "exclusive queues deleted",
    "dedupe keys forgotten",
    "positions trimmed",
    "messages lapsed",
    "segments switched",
    "segments emptied",
]


@pytest.fixture(autouse=True)
def queue(mq: Caller) -> None:
    mq("create_queue", "q", "t", max_delivery_attempts=2)


def test_statistics_have_the_columns_of_the_contract(mq: Caller) -> None:
    cursor = mq.db.execute("select * from penstock.get_queue_statistics('q')")
    assert [column.name for column in cursor.description or ()] == STATISTICS
    assert cursor.fetchone() == (0, 0, 0, 0, 0, 0, None, 0, 0, 0, 0, None)


@pytest.mark.parametrize("ordering", ["standard", "fifo", "fair"])
def test_statistics_count_every_place_of_a_message(mq: Caller, ordering: str) -> None:
    mq("create_queue", "o", "t", ordering=ordering)
    published = [mq.publish("t", n, key=str(n)) for n in range(10)]
    mq.publish("t", "later", key="later", deliver_after=mq.at(seconds=600))
    rows = [row.message_id for row in mq.consume("o", 6)]
    mq.column("ack_messages", "o", rows[:2], "me")
    mq("bury_message", "o", rows[2], "me")
    mq.nack("o", rows[3], delay_seconds=600)
    found = mq.statistics("o")
    assert found[:4] == (6, 2, 2, 10)
    assert found.dead_count == 1
    assert found.scheduled_count == found.delayed_count + found.retrying_count == 2
    assert found.total_count + found.dead_count == len(published) + 1


def test_oldest_pending_at_is_the_time_of_the_oldest_message_not_yet_claimed(mq: Caller) -> None:
    first = mq.publish("t", 1)
    advance(mq.db, seconds=60)
    mq.publish("t", 2)
    oldest = mq.statistics("q").oldest_pending_at
    assert oldest < mq.at(seconds=-50)
    mq.consume("q", 1)
    assert mq.statistics("q").oldest_pending_at - oldest >= timedelta(seconds=60)
    mq.nack("q", first, delay_seconds=5)
    assert mq.statistics("q").oldest_pending_at == oldest


def test_message_state_follows_the_life_of_a_message(mq: Caller) -> None:
    message_id = mq.publish("t", 1)
    seen = [mq.state("q", message_id)]
    mq.consume("q")
    seen.append(mq.state("q", message_id))
    mq.nack("q", message_id, delay_seconds=0)
    seen.append(mq.state("q", message_id))
    mq.consume("q")
    mq.nack("q", message_id)
    seen.append(mq.state("q", message_id))
    mq("requeue_dlq_messages", "q")
    seen.append(mq.state("q", message_id))
    mq.consume("q")
    mq.ack("q", message_id)
    seen.append(mq.state("q", message_id))
    assert seen == ["waiting", "claimed", "waiting", "dead", "waiting", "done"]


def test_message_state_is_null_for_what_the_queue_never_had(mq: Caller) -> None:
    before = mq.publish("t", 1)
    mq("create_queue", "late", "t")
    mq("create_queue", "elsewhere")
    assert mq.state("late", before) is None
    assert mq.state("elsewhere", before) is None
    assert mq.state("q", before + 1000) is None
    assert mq.state("q", 2**40) is None


def test_looking_changes_nothing(mq: Caller) -> None:
    message_id = mq.publish("t", 1, priority=3)
    with nothing_changes(mq.db):
        mq.statistics("q")
        mq.state("q", message_id)
        mq("get_next_visible_time", "q")
        mq.rows("key_counts", "q")
        mq.rows("browse_messages", "q")
        mq.rows("health")
        for function in ("list_topics", "list_queues", "list_readers", "list_dlq_messages"):
            mq.rows(function)
        for view in ("topics", "queues", "messages", "queue_messages", "dead_letter_queue"):
            mq.query(f"select * from penstock.{view}")


def test_key_counts_tell_the_busiest_keys_first(mq: Caller) -> None:
    for key in ["a", "b", "a", None, "a", "b"]:
        mq.publish("t", 1, key=key)
    assert [tuple(r) for r in mq.rows("key_counts", "q")] == [("a", 3), ("b", 2), (None, 1)]
    assert len(mq.rows("key_counts", "q", 1)) == 1
    mq.ack("q", mq.consume("q", 1)[0].message_id)
    assert mq.rows("key_counts", "q", 1)[0].message_count == 2


def test_cleanup_queue_messages_forgets_the_done_and_counts_them(mq: Caller) -> None:
    mq("create_queue", "other", "t")
    mq.publish_many("t", [1, 2, 3])
    mq.drain("other")
    rows = mq.consume("q", 2)
    mq.ack("q", rows[0].message_id)
    assert mq("cleanup_queue_messages", "q") == 1
    assert mq("cleanup_queue_messages", "q") == 0
    assert mq.statistics("q")[:4] == (1, 1, 0, 2)
    assert mq.statistics("other").completed_count == 3
    assert mq.ack("q", rows[1].message_id)


def test_cleanup_topic_messages_forgets_the_done_of_all_its_queues(mq: Caller) -> None:
    mq("create_queue", "other", "t")
    mq("create_queue", "elsewhere")
    mq.publish_many("t", [1, 2, 3])
    mq.publish("elsewhere", 1)
    for name in ("q", "other", "elsewhere"):
        mq.drain(name)
    assert mq("cleanup_topic_messages", "t") == 6
    assert mq.statistics("elsewhere").completed_count == 1


def test_maintain_reports_its_steps_and_is_harmless_when_repeated(mq: Caller) -> None:
    mq.publish("t", 1)
    for _ in range(20):
        mq("release_message", "q", mq.consume("q")[0].message_id, "me")
    first = maintain(mq.db)
    assert set(STEPS) <= set(first)
    assert first["positions trimmed"] > 0
    again = maintain(mq.db)
    assert set(again.values()) == {0}
    assert mq.payloads("q") == [1]


def test_maintain_from_two_sides_at_once_does_the_work_once(mq: Caller, connect: Connect) -> None:
    other = connect(autocommit=False)
    assert other.execute("select count(*) from penstock.maintain()").fetchone()[0] > 0
    assert mq.rows("maintain") == []
    other.rollback()
    assert mq.rows("maintain") != []


def test_health_of_a_fresh_installation_is_good(mq: Caller) -> None:
    assert [row for row in mq.rows("health") if not row.ok] == []


def test_health_tells_what_is_wrong_and_what_to_do(mq: Caller) -> None:
    message_id = mq.publish("t", 1)
    mq.consume("q")
    mq("bury_message", "q", message_id, "me")
    mq("configure", "max_log_bytes", "1")
    mq.rows("maintain")
    mq("create_queue", "mine", exclusive=True, keep_alive_seconds=1)
    advance(mq.db, seconds=2)
    bad = {row.name: row for row in mq.rows("health") if not row.ok}
    assert set(bad) == {"clock", "log", "exclusive queues", "dead letters"}
    assert all(row.advice for row in bad.values())


def test_configuration_shows_what_configure_set(mq: Caller) -> None:
    before = dict(mq.query("select * from penstock.configuration()"))
    mq("configure", "segment_bytes", "1000000")
    mq("configure", "segment_age", "2 hours")
    after = dict(mq.query("select * from penstock.configuration()"))
    assert (after["segment_bytes"], after["segment_age"]) == ("1000000", "02:00:00")
    mq("configure", "segment_bytes", None)
    mq("configure", "segment_age", None)
    assert dict(mq.query("select * from penstock.configuration()")) == before
