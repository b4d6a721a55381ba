"""extend_message_vt and batch_extend_message_vt."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from tests.fixtures.clock import advance
from tests.sql.refusals import nothing_changes

if TYPE_CHECKING:
    from tests.sql.caller import Caller


@pytest.fixture(autouse=True)
def queue(mq: Caller) -> None:
    mq("create_queue", "q", "t")


def test_extending_moves_the_deadline_by_the_seconds_given(mq: Caller) -> None:
    message_id = mq.publish("t", 1)
    (row,) = mq.consume("q", vt=30)
    vt = mq("extend_message_vt", "q", message_id, "me", 60)
    assert vt == row.vt + timedelta(seconds=60)
    advance(mq.db, seconds=89)
    assert mq.consume("q", token="other") == []
    assert mq.state("q", message_id) == "claimed"
    advance(mq.db, seconds=2)
    assert [r.delivery_attempts for r in mq.consume("q", token="other")] == [2]


def test_extending_again_and_again_keeps_a_message_as_long_as_needed(mq: Caller) -> None:
    message_id = mq.publish("t", 1)
    mq.consume("q", vt=30)
    for _ in range(20):
        advance(mq.db, seconds=25)
        assert mq("extend_message_vt", "q", message_id, "me", 25) is not None
    assert mq.ack("q", message_id)


def test_extending_a_lost_claim_is_null_and_changes_nothing(mq: Caller) -> None:
    message_id = mq.publish("t", 1)
    mq.consume("q", vt=30)
    with nothing_changes(mq.db):
        assert mq("extend_message_vt", "q", message_id, "you", 60) is None
        assert mq("extend_message_vt", "q", message_id + 1, "me", 60) is None
    advance(mq.db, seconds=31)
    with nothing_changes(mq.db):
        assert mq("extend_message_vt", "q", message_id, "me", 60) is None
    mq.consume("q", token="other")
    with nothing_changes(mq.db):
        assert mq("extend_message_vt", "q", message_id, "me", 60) is None
    mq.ack("q", message_id, "other")
    assert mq("extend_message_vt", "q", message_id, "other", 60) is None


def test_extending_one_of_a_batch_leaves_the_deadlines_of_the_others(mq: Caller) -> None:
    ids = mq.publish_many("t", [1, 2, 3])
    mq.consume("q", vt=30)
    assert mq("extend_message_vt", "q", ids[1], "me", 60) is not None
    advance(mq.db, seconds=31)
    assert sorted(r.message_id for r in mq.consume("q", token="other")) == [ids[0], ids[2]]
    assert mq.ack("q", ids[1])


def test_batch_extend_returns_those_still_held_with_their_deadlines(mq: Caller) -> None:
    ids = mq.publish_many("t", [1, 2, 3, 4])
    first = mq.consume("q", 2, vt=30)
    second = mq.consume("q", 2, vt=50)
    mq.ack("q", ids[0])
    rows = mq.rows("batch_extend_message_vt", "q", [*ids, 999_999], "me", 10)
    ten = timedelta(seconds=10)
    assert {r.message_id: r.vt for r in rows} == {
        ids[1]: first[1].vt + ten,
        ids[2]: second[0].vt + ten,
        ids[3]: second[1].vt + ten,
    }


def test_extended_message_keeps_its_attempt_and_its_history(mq: Caller) -> None:
    message_id = mq.publish("t", 1)
    mq.consume("q")
    mq.nack("q", message_id, delay_seconds=0, error="first")
    mq.consume("q")
    mq("extend_message_vt", "q", message_id, "me", 60)
    mq("bury_message", "q", message_id, "me", "second")
    (dead,) = mq.rows("list_dlq_messages")
    assert dead.delivery_attempts == 2
    assert [attempt["error"] for attempt in dead.history] == ["first", "second"]
