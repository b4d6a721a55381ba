"""ack_and_consume, ack_and_consume_batch: finish and claim in one transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.sql.refusals import nothing_changes, refused
from tests.sql.test_consume import COLUMNS

if TYPE_CHECKING:
    from tests.fixtures.databases import Connect
    from tests.sql.caller import Caller


@pytest.fixture(autouse=True)
def queue(mq: Caller) -> None:
    mq("create_queue", "q", "t")


def step(mq: Caller, done: int | None, token: str = "me", queue: str = "q") -> Any:
    (row,) = mq.rows("ack_and_consume", queue, token, done)
    return row


def batch(mq: Caller, done: list[int], size: int = 3) -> tuple[list[int], list[Any]]:
    rows = mq.rows("ack_and_consume_batch", "q", "me", done, 30, size)
    acked = [row.acked_id for row in rows if row.acked_id is not None]
    return acked, rows[len(acked) :]


@pytest.mark.parametrize(
    ("call", "first"),
    [
        ("ack_and_consume('q', 'me', null)", "acked"),
        ("ack_and_consume_batch('q', 'me', '{}', 30, 5)", "acked_id"),
    ],
)
def test_the_columns_are_those_of_a_claim_behind_the_ack(mq: Caller, call: str, first: str) -> None:
    cursor = mq.db.execute(f"select * from penstock.{call}".encode())
    assert [column.name for column in cursor.description or ()] == [first, *COLUMNS]


def test_a_loop_finishes_each_message_and_gets_the_next(mq: Caller) -> None:
    ids = mq.publish_many("t", [1, 2, 3])
    first = step(mq, None)
    assert (first.acked, first.message_id, first.payload) == (False, ids[0], 1)
    assert first.vt is not None
    second = step(mq, ids[0])
    assert (second.acked, second.payload) == (True, 2)
    third = step(mq, ids[1])
    last = step(mq, third.message_id)
    assert (third.payload, last.acked, last.message_id) == (3, True, None)
    assert mq.statistics("q").completed_count == 3


def test_a_lost_claim_is_told_and_the_next_message_comes_all_the_same(mq: Caller) -> None:
    ids = mq.publish_many("t", [1, 2])
    mq.consume("q", 1, token="other")
    row = step(mq, ids[0])
    assert (row.acked, row.message_id) == (False, ids[1])
    assert mq.state("q", ids[0]) == "claimed"


def test_many_are_finished_and_many_claimed(mq: Caller) -> None:
    ids = mq.publish_many("t", list(range(6)))
    acked, rows = batch(mq, [])
    assert (acked, [row.payload for row in rows]) == ([], [0, 1, 2])
    acked, rows = batch(mq, [*ids[:3], 999])
    assert (sorted(acked), [row.payload for row in rows]) == (ids[:3], [3, 4, 5])
    acked, rows = batch(mq, ids[3:])
    assert (sorted(acked), rows) == (ids[3:], [])


def test_a_key_is_free_once_its_ack_is_committed(mq: Caller) -> None:
    mq("create_queue", "lanes", "t", ordering="fifo")
    mq.publish_many("t", [1, 2, 3], keys=["a", "a", "b"])
    first = step(mq, None, queue="lanes")
    second = step(mq, first.message_id, queue="lanes")
    assert (second.acked, second.payload) == (True, 3)
    assert step(mq, second.message_id, queue="lanes").payload == 2


def test_both_are_undone_together(mq: Caller, connect: Connect) -> None:
    ids = mq.publish_many("t", [1, 2])
    step(mq, None)
    with nothing_changes(mq.db), mq.db.transaction(force_rollback=True):
        assert step(mq, ids[0]).payload == 2
    assert mq.state("q", ids[0]) == "claimed"
    assert step(mq, ids[0]).payload == 2


def test_bad_input_changes_nothing(mq: Caller) -> None:
    ids = mq.publish_many("t", [1, 2])
    step(mq, None)
    with nothing_changes(mq.db):
        with refused("PS002"):
            step(mq, ids[0], queue="nothing")
        with refused("PS005", "vt_seconds"):
            mq.rows("ack_and_consume", "q", "me", ids[0], -1)
        with refused("PS005", "batch_size"):
            mq.rows("ack_and_consume_batch", "q", "me", [ids[0]], 30, 0)


def test_a_consumer_may_and_others_may_not(mq: Caller, connect: Connect) -> None:
    mq.publish("t", 1)
    call = "select payload from penstock.ack_and_consume('q', 'me', null)"
    with refused("42501"):
        connect(role="penstock_publisher").execute(call)
    assert connect(role="penstock_consumer").execute(call).fetchall() == [(1,)]
