"""create_topic, delete_topic, list_topics."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import TYPE_CHECKING

from tests.sql.refusals import contents, nothing_changes, refused

if TYPE_CHECKING:
    from tests.sql.caller import Caller


def test_create_topic_returns_the_id_of_the_topic(mq: Caller) -> None:
    topic_id = mq("create_topic", "orders")
    assert [(row.id, row.name) for row in mq.rows("list_topics")] == [(topic_id, "orders")]


def test_create_topic_again_returns_the_same_id(mq: Caller) -> None:
    assert mq("create_topic", "orders") == mq("create_topic", "orders")
    assert len(mq.rows("list_topics")) == 1


def test_create_topic_with_the_same_retention_returns_the_same_id(mq: Caller) -> None:
    kept = mq("create_topic", "orders", timedelta(days=1))
    assert mq("create_topic", "orders", timedelta(days=1)) == kept
    assert mq("create_topic", "orders") == kept


def test_create_topic_with_another_retention_is_refused(mq: Caller) -> None:
    mq("create_topic", "orders", timedelta(days=1))
    with nothing_changes(mq.db), refused("PS006", "orders", "1 day"):
        mq("create_topic", "orders", timedelta(days=2))


def test_topic_ids_are_bigint(mq: Caller) -> None:
    assert mq.value("select pg_typeof(penstock.create_topic('orders'))::text") == "bigint"


def test_names_that_differ_in_case_or_blanks_are_different_topics(mq: Caller) -> None:
    names = ["orders", "Orders", "orders ", "órdenes", "注文", "a'b\"c;--", "x" * 200]
    assert len({mq("create_topic", name) for name in names}) == len(names)
    for name in names:
        mq("create_queue", f"q:{name}"[:200], name)
        mq.publish(name, name)
    for name in names:
        assert mq.payloads(f"q:{name}"[:200]) == [name]


def test_list_topics_counts_queues_and_readers(mq: Caller) -> None:
    mq("create_topic", "orders", timedelta(hours=2))
    mq("create_queue", "billing", "orders")
    mq("create_queue", "shipping", "orders")
    mq("create_reader", "audit", "orders")
    (row,) = mq.rows("list_topics")
    assert (row.queue_count, row.reader_count, row.retention) == (2, 1, timedelta(hours=2))
    assert row.created_at is not None


def test_delete_topic_takes_its_queues_readers_and_messages(mq: Caller) -> None:
    mq("create_queue", "billing", "orders", max_delivery_attempts=1)
    mq("create_queue", "other")
    mq("create_reader", "audit", "orders")
    for _ in range(4):
        mq.publish("orders", dedupe_key=None)
    mq.publish("orders", dedupe_key="once")
    mq.publish("other", "kept")
    claimed = mq.consume("billing", 3)
    mq.ack("billing", claimed[0].message_id)
    mq.nack("billing", claimed[1].message_id)
    mq("delete_topic", "orders")

    assert [row.name for row in mq.rows("list_topics")] == ["other"]
    assert [row.name for row in mq.rows("list_queues")] == ["other"]
    assert mq.rows("list_readers") == []
    assert mq.rows("list_dlq_messages") == []
    assert mq.value("select count(*) from penstock.messages") == 1
    with refused("PS002", "billing"):
        mq.consume("billing")
    with refused("PS001", "orders"):
        mq.publish("orders")
    assert mq.payloads("other") == ["kept"]


def test_deleted_topic_leaves_nothing_but_log_and_history(mq: Caller) -> None:
    before = contents(mq.db)
    for ordering in ("standard", "fifo", "fair"):
        mq("create_queue", ordering, "t", ordering=ordering, notify="always")
        mq("create_queue", f"{ordering}, waiting", "t", exclusive=True, ordering=ordering)
        mq("start_waiting", f"{ordering}, waiting")
    mq("create_reader", "r", "t")
    for number in range(5):
        mq.publish("t", number, key=str(number % 2), dedupe_key=str(number), priority=number)
    for queue in mq.rows("list_queues"):
        rows = mq.consume(queue.name, 2)
        mq("bury_message", queue.name, rows[0].message_id, "me")
    mq.rows("read_window", "r")
    mq("delete_topic", "t")
    mq.rows("maintain")
    left = {table for table, found in contents(mq.db).items() if found != before[table]}
    assert {table for table in left if not re.search(r"\.(messages|receipts)_\d", table)} == set()


def test_topic_created_again_after_deletion_starts_empty(mq: Caller) -> None:
    mq("create_queue", "billing", "orders")
    first = mq.publish("orders", "old", dedupe_key="once")
    mq("delete_topic", "orders")
    mq("create_queue", "billing", "orders", start_at="beginning")
    assert mq.payloads("billing") == []
    assert mq.publish("orders", "new", dedupe_key="once") != first
    assert mq.payloads("billing") == ["new"]


def test_delete_topic_that_does_not_exist_says_so(mq: Caller) -> None:
    with refused("PS001", "'nothing'"):
        mq("delete_topic", "nothing")
