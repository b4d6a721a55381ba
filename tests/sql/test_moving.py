"""Messages and dead letters that move to another topic, and the ledger of imports."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.fixtures.clock import advance
from tests.sql.refusals import refused

if TYPE_CHECKING:
    from tests.fixtures.databases import Connect
    from tests.sql.caller import Caller


@pytest.mark.parametrize("ordering", ["standard", "fifo", "fair"])
def test_waiting_messages_move_whole_and_in_order(mq: Caller, ordering: str) -> None:
    mq("create_queue", "q", "t", ordering=ordering)
    mq("create_queue", "other")
    expires = mq.at(seconds=600)
    first = mq.publish("t", 1, key="k", correlation_id="c", tenant_id="x", expires_at=expires)
    second = mq.publish("t", 2, key="k", headers={"a": 1})
    mq.publish("t", 3, key="later", deliver_after=mq.at(seconds=60))
    moved = 0
    while count := mq("move_messages", "q", "other", 10):
        moved += count
    assert moved == 2
    one, two = mq.rows("browse_topic", "other")
    assert (one.payload, one.key, one.correlation_id, one.tenant_id) == (1, "k", "c", "x")
    assert one.expires_at == expires
    assert one.headers == {"penstock-original-id": first, "penstock-moved-from": "q"}
    assert two.headers == {"a": 1, "penstock-original-id": second, "penstock-moved-from": "q"}
    assert mq("message_state", "q", first) == "done"
    assert mq.statistics("q").pending_count == 1


def test_a_message_that_moves_twice_keeps_its_first_id(mq: Caller) -> None:
    for name in ("a", "b", "c"):
        mq("create_queue", name)
    first = mq.publish("a")
    mq("move_messages", "a", "b")
    mq("move_messages", "b", "c")
    (row,) = mq.rows("browse_topic", "c")
    assert row.headers == {"penstock-original-id": first, "penstock-moved-from": "b"}


def test_dead_letters_move_the_named_ones_or_all(mq: Caller) -> None:
    mq("create_queue", "q", "t", max_delivery_attempts=1)
    mq("create_queue", "other")
    ids = mq.publish_many("t", [1, 2, 3])
    mq.consume("q", 3)
    for each in ids:
        mq.nack("q", each)
    assert mq("move_dlq_messages", "q", "other", [ids[1]]) == 1
    assert [row.message_id for row in mq.rows("list_dlq_messages", "q")] == [ids[0], ids[2]]
    assert mq("move_dlq_messages", "q", "other", most=1) == 1
    assert mq("move_dlq_messages", "q", "other") == 1
    assert mq("move_dlq_messages", "q", "other") == 0
    found = mq.rows("browse_topic", "other")
    assert [row.headers["penstock-original-id"] for row in found] == [ids[1], ids[0], ids[2]]
    with refused("PS014"):
        mq("move_dlq_messages", "q", "other", [ids[0]])


def test_a_move_into_the_own_topic_is_refused_and_changes_nothing(mq: Caller) -> None:
    mq("create_queue", "q", "t")
    mq.publish("t")
    for function in ("move_messages", "move_dlq_messages"):
        with refused("PS005"):
            mq(function, "q", "t")
        with refused("PS001"):
            mq(function, "q", "nowhere")
    assert mq.statistics("q").pending_count == 1


def test_a_move_that_is_rolled_back_moved_nothing(mq: Caller, connect: Connect) -> None:
    mq("create_queue", "q", "t")
    mq("create_queue", "other")
    mq.publish("t")
    mover = connect(autocommit=False)
    mover.execute("select penstock.move_messages('q', 'other')")
    mover.rollback()
    assert mq.statistics("q").pending_count == 1
    assert mq.rows("browse_topic", "other") == []


def test_the_log_is_browsed_page_by_page(mq: Caller) -> None:
    mq("create_topic", "t")
    ids = mq.publish_many("t", [1, 2, 3])
    assert [row.message_id for row in mq.rows("browse_topic", "t", page_size=2)] == ids[:2]
    assert [row.message_id for row in mq.rows("browse_topic", "t", ids[1])] == ids[2:]
    with refused("PS005"):
        mq.rows("browse_topic", "t", 0, 0)


def test_dead_letters_are_listed_page_by_page(mq: Caller) -> None:
    mq("create_queue", "q", "t", max_delivery_attempts=1)
    mq.publish_many("t", [1, 2, 3])
    mq.consume("q", 3, vt=1)
    advance(mq.db, seconds=2)
    assert mq.consume("q", 1) == []
    (first, second) = mq.rows("list_dlq_messages", "q", 0, 2)
    (third,) = mq.rows("list_dlq_messages", "q", after=second.id)
    assert [first.payload, second.payload, third.payload] == [1, 2, 3]


def test_an_import_is_noted_once_from_each_place(mq: Caller) -> None:
    mq("create_topic", "t")
    assert mq("import_progress", "file", "t") == 0
    mq("note_import", "file", "t", 0, 500)
    assert mq("import_progress", "file", "t") == 500
    with refused("PS005"):
        mq("note_import", "file", "t", 0, 500)
    mq("note_import", "file", "t", 500, 700)
    assert mq("import_progress", "file", "t") == 700
