"""The views, and every statement printed in PostgreMQ's documentation, run unchanged."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from psycopg.errors import InsufficientPrivilege, ObjectNotInPrerequisiteState

from tests.fixtures.clock import advance
from tests.sql.refusals import nothing_changes, refused

if TYPE_CHECKING:
    from tests.sql.caller import Caller

DAY = 86_400

# Columns of the seed's tables, which the views must have.
COLUMNS = {
    "topics": "id name created_at",
    "queues": "id name topic_id exclusive max_delivery_attempts keep_alive_until created_at",
    "messages": "id topic_id payload publish_at deliver_after created_at",
    "queue_messages": (
        "id queue_id message_id status vt consumer_token delivery_attempts created_at completed_at"
    ),
    "dead_letter_queue": ("id queue_name message_id payload delivery_attempts last_error moved_at"),
}

CLEANUP = """
-- Cleanup completed messages older than 7 days
DELETE FROM queue_messages
WHERE status = 'completed'
  AND completed_at < NOW() - INTERVAL '7 days';
"""
QUEUE_DEPTH = """
-- Check pending message counts
SELECT q.name, COUNT(*) as pending_count
FROM queues q
JOIN queue_messages qm ON qm.queue_id = q.id
WHERE qm.status = 'pending'
GROUP BY q.name
ORDER BY pending_count DESC;
"""
DLQ_DEPTH = """
-- Check dead letter queue
SELECT queue_name, COUNT(*) as failed_count
FROM dead_letter_queue
GROUP BY queue_name
ORDER BY failed_count DESC;
"""
EXCLUSIVE = "SELECT cleanup_expired_exclusive_queues();"
STUCK = """
-- Find messages stuck in 'processing' with expired vt
SELECT qm.*, q.name
FROM queue_messages qm
JOIN queues q ON q.id = qm.queue_id
WHERE qm.status = 'processing'
  AND qm.vt < NOW();
"""
TABLES_EXIST = """
-- Check tables exist
SELECT tablename FROM pg_tables WHERE schemaname = 'public'
  AND tablename IN ('topics', 'queues', 'messages', 'queue_messages', 'dead_letter_queue');
"""
FUNCTIONS_EXIST = """
-- Check functions exist
SELECT proname FROM pg_proc WHERE proname LIKE '%message%' OR proname LIKE '%queue%';
"""


@pytest.fixture(autouse=True)
def queues(mq: Caller) -> None:
    mq("create_queue", "billing", "orders", max_delivery_attempts=1)
    mq("create_queue", "shipping", "orders")
    mq.db.execute("set search_path = penstock")


def run(mq: Caller, statement: str) -> list[Any]:
    return [tuple(row) for row in mq.query(statement)]


@pytest.mark.parametrize("view", COLUMNS)
def test_view_has_the_columns_of_the_seed(mq: Caller, view: str) -> None:
    wanted = ", ".join(COLUMNS[view].split())
    assert isinstance(run(mq, f"select {wanted} from {view}"), list)


def test_seed_monitors_queue_depth(mq: Caller) -> None:
    mq.publish_many("orders", [1, 2, 3])
    mq.publish("orders", 4, deliver_after=mq.at(seconds=60))
    mq.consume("billing", 2)
    assert run(mq, QUEUE_DEPTH) == [("shipping", 4), ("billing", 2)]


def test_seed_monitors_the_dead_letter_queue(mq: Caller) -> None:
    mq.publish_many("orders", [1, 2])
    for row in mq.consume("billing"):
        mq.nack("billing", row.message_id)
    mq("bury_message", "shipping", mq.consume("shipping", 1)[0].message_id, "me")
    assert run(mq, DLQ_DEPTH) == [("billing", 2), ("shipping", 1)]


def test_seed_cleans_up_completed_messages_older_than_seven_days(mq: Caller) -> None:
    advance(mq.db, seconds=-8 * DAY)
    mq.publish_many("orders", [1, 2, 3])
    mq.drain("billing")
    advance(mq.db, seconds=8 * DAY)
    mq.publish("orders", 4)
    mq.drain("billing")
    cursor = mq.db.execute(CLEANUP.encode())
    assert cursor.rowcount == 3
    assert mq.statistics("billing").completed_count == 1
    assert mq.statistics("shipping").pending_count == 4
    assert mq.db.execute(CLEANUP.encode()).rowcount == 0


def test_seed_cleans_up_exclusive_queues(mq: Caller) -> None:
    mq("create_queue", "mine", exclusive=True, keep_alive_seconds=5)
    advance(mq.db, seconds=6)
    assert run(mq, EXCLUSIVE) == [(1,)]


def test_seed_finds_stuck_messages_that_then_come_back_by_themselves(mq: Caller) -> None:
    advance(mq.db, seconds=-60)
    message_id = mq.publish("orders", 1)
    mq.consume("shipping", vt=30, token="gone")
    assert mq.value("select count(*) from queue_messages where status = 'processing'") == 1
    (stuck,) = mq.query(STUCK)
    assert (stuck.message_id, stuck.name, stuck.consumer_token) == (message_id, "shipping", "gone")
    assert stuck.delivery_attempts == 1
    advance(mq.db, seconds=60)
    assert len(mq.consume("shipping")) == 1


def test_seed_verifies_the_installation(mq: Caller) -> None:
    run(mq, TABLES_EXIST)
    names = {name for (name,) in run(mq, FUNCTIONS_EXIST)}
    assert {"publish_message", "consume_message", "create_queue", "ack_message"} <= names


@pytest.mark.parametrize(
    "call",
    [
        "select create_topic('t')",
        "select * from list_topics()",
        "select create_queue('x', 'orders', false, 3, null)",
        "select create_queue('x', 'orders', true, 3, 60)",
        "select * from list_queues()",
        "select * from get_queue_statistics('billing')",
        "select publish_message('orders', '{}')",
        "select publish_message('orders', '{}', now() + interval '1 hour')",
        "select * from consume_message('billing', 'me', 30)",
        "select * from consume_messages_batch('billing', 'me', 30, 10)",
        "select ack_message('billing', 1, 'me')",
        "select nack_message('billing', 1, 'me', 5)",
        "select release_message('billing', 1, 'me')",
        "select extend_message_vt('billing', 1, 'me', 30)",
        "select * from batch_extend_message_vt('billing', array[1, 2], 'me', 30)",
        "select * from list_dlq_messages()",
        "select requeue_dlq_messages('billing')",
        "select purge_dlq()",
        "select cleanup_queue_messages('billing')",
        "select cleanup_topic_messages('orders')",
        "select cleanup_expired_exclusive_queues()",
        "select purge_all_messages()",
        "select delete_queue('billing')",
        "select delete_topic('orders')",
    ],
)
def test_every_function_of_the_seed_takes_the_seeds_arguments(mq: Caller, call: str) -> None:
    mq.db.execute(call.encode())


def test_queue_messages_shows_each_message_once_with_its_status(mq: Caller) -> None:
    ids = mq.publish_many("orders", [1, 2, 3])
    mq.ack("shipping", mq.consume("shipping", 1)[0].message_id)
    (claimed,) = mq.consume("shipping", 1)
    rows = mq.query(
        "select qm.* from queue_messages qm join queues q on q.id = qm.queue_id "
        "where q.name = 'shipping' order by message_id"
    )
    assert [(r.message_id, r.status) for r in rows] == [
        (ids[0], "completed"),
        (ids[1], "processing"),
        (ids[2], "pending"),
    ]
    assert (rows[1].vt, rows[1].consumer_token) == (claimed.vt, "me")
    assert rows[0].completed_at is not None
    assert rows[2].completed_at is None


def test_deleting_one_completed_row_leaves_its_neighbours_of_the_batch(mq: Caller) -> None:
    ids = mq.publish_many("orders", [1, 2, 3])
    mq.drain("shipping")
    mq.db.execute(
        "delete from queue_messages where status = 'completed' and message_id = %s", (ids[1],)
    )
    assert mq.statistics("shipping").completed_count == 2
    assert [mq.state("shipping", i) for i in ids] == ["done", None, "done"]


@pytest.mark.parametrize("status", ["pending", "processing"])
def test_only_completed_rows_can_be_deleted(mq: Caller, status: str) -> None:
    mq.publish_many("orders", [1, 2])
    mq.consume("shipping", 1)
    with nothing_changes(mq.db), refused("PS005", status, "purge_queue"):
        mq.db.execute("delete from queue_messages where status = %s", (status,))


def test_messages_view_shows_what_was_published(mq: Caller) -> None:
    due = mq.at(seconds=60)
    message_id = mq.publish("orders", {"a": 1}, deliver_after=due)
    (row,) = mq.query("select * from messages")
    assert (row.id, row.payload, row.deliver_after) == (message_id, {"a": 1}, due)
    assert row.publish_at == row.created_at
    assert mq.value("select name from topics where id = %s", row.topic_id) == "orders"


@pytest.mark.parametrize("view", ["topics", "queues", "messages", "dead_letter_queue"])
def test_nothing_can_be_written_through_the_other_views_by_an_admin(mq: Caller, view: str) -> None:
    mq.db.execute("set role penstock_admin")
    with pytest.raises((InsufficientPrivilege, ObjectNotInPrerequisiteState)):
        mq.db.execute(f"delete from {view}".encode())
