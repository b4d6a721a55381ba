"""Dead letters: when a message dies, what is kept, requeue and purge."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.fixtures.clock import advance
from tests.sql.refusals import nothing_changes, refused

if TYPE_CHECKING:
    from tests.sql.caller import Caller


@pytest.fixture(autouse=True)
def queue(mq: Caller) -> None:
    mq("create_queue", "q", "t", max_delivery_attempts=2)


def bury(mq: Caller, queue: str, count: int, **options: Any) -> list[int]:
    ids = [mq.publish("t", n, **options) for n in range(count)]
    for row in mq.consume(queue, count, token="undertaker"):
        assert mq("bury_message", queue, row.message_id, "undertaker", f"error {row.payload}")
    return ids


def test_message_dies_when_its_attempts_are_used_up_and_only_then(mq: Caller) -> None:
    message_id = mq.publish("t", 1)
    for expected in ("waiting", "dead"):
        assert len(mq.consume("q")) == 1
        mq.nack("q", message_id, delay_seconds=0)
        assert mq.state("q", message_id) == expected
    assert mq.consume("q") == []


def test_default_is_three_attempts(mq: Caller) -> None:
    mq("create_queue", "three", "t")
    message_id = mq.publish("t", 1)
    attempts = []
    while found := mq.consume("three"):
        attempts.append(found[0].delivery_attempts)
        mq.nack("three", message_id, delay_seconds=0)
    assert attempts == [1, 2, 3]
    assert mq.state("three", message_id) == "dead"


def test_crashing_consumers_use_attempts_up_too(mq: Caller) -> None:
    message_id = mq.publish("t", 1)
    for _ in range(2):
        assert len(mq.consume("q", vt=10)) == 1
        advance(mq.db, seconds=11)
    assert mq.consume("q") == []
    assert mq.state("q", message_id) == "dead"
    (dead,) = mq.rows("list_dlq_messages", "q")
    assert dead.delivery_attempts == 2
    assert "without an answer" in dead.last_error


def test_zero_attempts_means_never_dead(mq: Caller) -> None:
    mq("create_queue", "patient", "t", max_delivery_attempts=0)
    message_id = mq.publish("t", 1)
    for attempt in range(1, 30):
        assert [r.delivery_attempts for r in mq.consume("patient")] == [attempt]
        mq.nack("patient", message_id, delay_seconds=0)
    assert mq.rows("list_dlq_messages") == []


def test_death_in_one_queue_is_none_in_another(mq: Caller) -> None:
    mq("create_queue", "other", "t")
    (message_id,) = bury(mq, "q", 1)
    assert (mq.state("q", message_id), mq.state("other", message_id)) == ("dead", "waiting")
    assert len(mq.consume("other")) == 1


def test_dead_letter_has_the_whole_message_its_error_and_its_history(mq: Caller) -> None:
    message_id = mq.publish(
        "t", {"a": 1}, headers={"h": 2}, key="k", priority=3, correlation_id="c", tenant_id="x"
    )
    mq.consume("q", token="one")
    mq.nack("q", message_id, "one", delay_seconds=0, error="first")
    mq.consume("q", token="two")
    mq.nack("q", message_id, "two", error="second")
    (dead,) = mq.rows("list_dlq_messages")
    assert (dead.queue_name, dead.message_id, dead.payload) == ("q", message_id, {"a": 1})
    assert (dead.headers, dead.key, dead.priority) == ({"h": 2}, "k", 3)
    assert (dead.correlation_id, dead.tenant_id) == ("c", "x")
    assert (dead.delivery_attempts, dead.last_error) == (2, "second")
    assert [(h["attempt"], h["outcome"], h["error"]) for h in dead.history] == [
        (1, "failed", "first"),
        (2, "failed", "second"),
    ]
    assert all(h["claimed_at"] <= h["ended_at"] for h in dead.history)
    assert dead.moved_at >= dead.published_at


def test_history_of_a_long_suffering_message_keeps_its_first_and_last_attempts(mq: Caller) -> None:
    mq("create_queue", "patient", "t", max_delivery_attempts=25)
    message_id = mq.publish("t", 1)
    for attempt in range(1, 26):
        mq.consume("patient")
        mq.nack("patient", message_id, delay_seconds=0, error=f"e{attempt}")
    (dead,) = mq.rows("list_dlq_messages", "patient")
    assert [h["error"] for h in dead.history] == ["e1", *(f"e{n}" for n in range(7, 26))]


def test_list_dlq_messages_of_one_queue_or_of_all(mq: Caller) -> None:
    mq("create_queue", "other", "t")
    ids = bury(mq, "q", 2)
    for row in mq.consume("other", 1):
        mq("bury_message", "other", row.message_id, "me")
    assert [r.message_id for r in mq.rows("list_dlq_messages", "q")] == ids
    assert [r.queue_name for r in mq.rows("list_dlq_messages")] == ["q", "q", "other"]
    with refused("PS002"):
        mq.rows("list_dlq_messages", "nothing")


def test_requeue_puts_all_back_with_their_attempts_counted_anew(mq: Caller) -> None:
    ids = bury(mq, "q", 3)
    assert mq("requeue_dlq_messages", "q") == 3
    assert mq.rows("list_dlq_messages") == []
    assert [mq.state("q", i) for i in ids] == ["waiting"] * 3
    found = mq.consume("q")
    assert [(r.message_id, r.delivery_attempts) for r in found] == [(i, 1) for i in ids]
    assert mq("requeue_dlq_messages", "q") == 0


def test_requeue_of_some_leaves_the_others(mq: Caller) -> None:
    ids = bury(mq, "q", 3)
    assert mq("requeue_dlq_messages", "q", [ids[1]]) == 1
    assert [r.message_id for r in mq.rows("list_dlq_messages")] == [ids[0], ids[2]]
    assert [r.message_id for r in mq.consume("q")] == [ids[1]]


def test_requeue_keeps_all_that_belongs_to_the_message(mq: Caller) -> None:
    options = {"headers": {"h": 1}, "key": "k", "priority": 4}
    bury(mq, "q", 1, correlation_id="c", tenant_id="x", **options)
    mq("requeue_dlq_messages", "q")
    (row,) = mq.consume("q")
    assert (row.payload, row.headers, row.key, row.priority) == (0, {"h": 1}, "k", 4)
    assert (row.correlation_id, row.tenant_id) == ("c", "x")


def test_history_goes_on_after_a_requeue(mq: Caller) -> None:
    (message_id,) = bury(mq, "q", 1)
    mq("requeue_dlq_messages", "q")
    mq.consume("q")
    mq("bury_message", "q", message_id, "me", "again")
    (dead,) = mq.rows("list_dlq_messages")
    assert [h["error"] for h in dead.history] == ["error 0", "again"]


def test_purge_dlq_of_one_queue_of_some_and_of_all(mq: Caller) -> None:
    mq("create_queue", "other", "t")
    ids = bury(mq, "q", 3)
    for row in mq.consume("other", 2):
        mq("bury_message", "other", row.message_id, "me")
    assert mq("purge_dlq", "q", [ids[0]]) == 1
    assert mq("purge_dlq", "q") == 2
    assert [r.queue_name for r in mq.rows("list_dlq_messages")] == ["other", "other"]
    assert mq("purge_dlq") == 2
    assert mq("purge_dlq") == 0


def test_purged_dead_letter_does_not_come_back(mq: Caller) -> None:
    (message_id,) = bury(mq, "q", 1)
    mq("purge_dlq", "q")
    advance(mq.db, seconds=3600)
    assert mq.consume("q") == []
    assert mq.state("q", message_id) is None


@pytest.mark.parametrize("call", ["requeue_dlq_messages", "purge_dlq"])
def test_id_that_is_no_dead_letter_of_the_queue_is_refused(mq: Caller, call: str) -> None:
    ids = bury(mq, "q", 2)
    alive = mq.publish("t", "alive")
    with nothing_changes(mq.db), refused("PS014", str(alive), "'q'"):
        mq(call, "q", [ids[0], alive])


def test_purging_some_needs_a_queue(mq: Caller) -> None:
    with refused("PS005", "queue_name"):
        mq("purge_dlq", None, [1])


def test_delete_queue_takes_its_dead_letters(mq: Caller) -> None:
    bury(mq, "q", 1)
    mq("delete_queue", "q")
    assert mq.rows("list_dlq_messages") == []
