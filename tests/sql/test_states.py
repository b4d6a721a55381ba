"""One vocabulary: waiting, blocked, delayed, retrying, claimed, done, dead, wherever it is told."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from tests.fixtures.clock import advance

if TYPE_CHECKING:
    from tests.sql.caller import Caller

PENDING = ("waiting", "blocked", "delayed", "retrying")


def overview(mq: Caller, queue: str = "q") -> Any:
    (row,) = [row for row in mq.rows("queue_overview") if row.queue_name == queue]
    return row


def since(seconds: float) -> Any:
    """So long ago, or some seconds longer on a busy machine."""
    return pytest.approx(seconds + 10, abs=10)


def age(mq: Caller, queue: str) -> float:
    """How long the oldest message that is due has been due."""
    seconds: float = mq.value(
        "select extract(epoch from penstock.clock() - oldest_waiting_at)::float"
        " from penstock.queue_overview() where queue_name = %s",
        queue,
    )
    return seconds


def agreed(mq: Caller, queue: str, ids: list[int]) -> dict[int, str]:
    """The state of each message, which every function must tell alike."""
    states = {each: mq.state(queue, each) for each in ids}
    counted = Counter(states.values())
    exact, bounded = mq.statistics(queue), overview(mq, queue)
    for state in PENDING:
        assert getattr(exact, f"{state}_count") == counted[state], state
        assert getattr(bounded, state) == counted[state], state
        found = [row.message_id for row in mq.rows("find_messages", queue, state)]
        assert sorted(found) == [each for each in sorted(ids) if states[each] == state]
    assert exact.pending_count == sum(counted[state] for state in PENDING)
    assert exact.scheduled_count == counted["delayed"] + counted["retrying"] == bounded.scheduled
    assert exact.processing_count == counted["claimed"] == bounded.claimed
    assert exact.completed_count == counted["done"]
    assert exact.dead_count == counted["dead"] == bounded.dead
    assert exact.oldest_waiting_at == bounded.oldest_waiting_at
    contents = {row.message_id: row.state for row in mq.rows("queue_contents", queue)}
    assert contents == {each: state for each, state in states.items() if state != "dead"}
    browsed = {row.message_id: row for row in mq.rows("browse_messages", queue)}
    for each, state in states.items():
        (seen,) = mq.rows("inspect_message", queue, each)
        assert seen.state == state
        if state in (*PENDING, "claimed"):
            assert browsed[each].state == state
            assert browsed[each].blocked_by == seen.blocked_by
            assert (seen.blocked_until is not None) == (state == "blocked")
    assert set(browsed) == {each for each in ids if states[each] in (*PENDING, "claimed")}
    return {each: state or "" for each, state in states.items()}


def blocker(mq: Caller, queue: str, message_id: int) -> tuple[Any, ...]:
    """What blocks a message: its id, its state and who holds it; the moment is in the future."""
    (seen,) = mq.rows("inspect_message", queue, message_id)
    if seen.blocked_until is not None:
        assert seen.blocked_until > mq.at(seconds=0)
    return seen.blocked_by, seen.blocked_by_state, seen.blocked_by_token


def test_one_queue_with_all_seven_states_is_told_alike_by_every_function(mq: Caller) -> None:
    mq("create_queue", "q", "t", ordering="fifo", max_delivery_attempts=2)
    keys = ["done", "dead", "retrying", "claimed", "claimed", "claimed"]
    done, dead, retrying, claimed, behind, last = mq.publish_many("t", list(range(6)), keys=keys)
    taken = [row.message_id for row in mq.consume("q", 4, vt=600)]
    assert taken == [done, dead, retrying, claimed]
    mq.ack("q", done)
    mq("bury_message", "q", dead, "me")
    mq.nack("q", retrying, delay_seconds=600)
    delayed = mq.publish("t", 7, key="delayed", deliver_after=mq.at(seconds=300))
    after_delayed = mq.publish("t", 8, key="delayed")
    after_retry = mq.publish("t", 9, key="retrying")
    waiting = mq.publish("t", 10, key="free")
    after_waiting = mq.publish("t", 11, key="free")
    everything = [done, dead, retrying, claimed, behind, last, delayed]
    everything += [after_delayed, after_retry, waiting, after_waiting]
    expected = {
        done: "done",
        dead: "dead",
        retrying: "retrying",
        claimed: "claimed",
        behind: "blocked",
        last: "blocked",
        delayed: "delayed",
        after_delayed: "blocked",
        after_retry: "blocked",
        # A worker is all that they lack, one after the other.
        waiting: "waiting",
        after_waiting: "waiting",
    }
    assert agreed(mq, "q", everything) == expected
    assert blocker(mq, "q", last) == (claimed, "claimed", "me")
    assert blocker(mq, "q", after_delayed) == (delayed, "delayed", None)
    assert blocker(mq, "q", after_retry) == (retrying, "retrying", None)
    assert blocker(mq, "q", after_waiting) == (None, None, None)
    now = overview(mq)
    assert (now.blocked_by, now.blocked_by_state, now.blocked_by_token) == (
        claimed,
        "claimed",
        "me",
    )
    assert now.blocked_until == mq.rows("find_messages", "q", "claimed")[0].visible_at

    # The same when the queue has read its log: a claim that takes one brings in the others.
    assert [row.message_id for row in mq.consume("q", 1, vt=600)] == [waiting]
    expected |= {waiting: "claimed", after_waiting: "blocked"}
    assert agreed(mq, "q", everything) == expected
    assert blocker(mq, "q", after_delayed) == (delayed, "delayed", None)

    advance(mq.db, seconds=301)  # the delayed message is due, and its key free
    expected |= {delayed: "waiting", after_delayed: "waiting"}
    assert agreed(mq, "q", everything) == expected
    advance(mq.db, seconds=400)  # the retry is due, and the claims are over
    expected |= dict.fromkeys([retrying, after_retry, behind, last, after_waiting], "waiting")
    assert agreed(mq, "q", everything) == expected


@pytest.mark.parametrize("ordering", ["standard", "fair"])
def test_nothing_is_blocked_where_keys_do_not_wait_for_each_other(
    mq: Caller, ordering: str
) -> None:
    mq("create_queue", "q", "t", ordering=ordering)
    ids = mq.publish_many("t", list(range(4)), keys=["k"] * 4)
    ids += [mq.publish("t", 5, key="k", deliver_after=mq.at(seconds=60))]
    ids += [mq.publish("t", 6, key="k", priority=4)]
    mq.consume("q", 1)
    mq.nack("q", ids[5], delay_seconds=600)
    mq.consume("q", 1)
    states = agreed(mq, "q", ids)
    assert Counter(states.values()) == {"waiting": 3, "claimed": 1, "delayed": 1, "retrying": 1}
    assert states[ids[5]] == "retrying"


def test_the_next_of_a_key_waits_as_soon_as_the_one_before_is_done(mq: Caller) -> None:
    """Although the queue learns of it with the next claim only."""
    mq("create_queue", "q", "t", ordering="fifo")
    first, second, third = mq.publish_many("t", [1, 2, 3], keys=["k"] * 3)
    mq.consume("q")
    assert agreed(mq, "q", [first, second, third])[third] == "blocked"
    mq.ack("q", first)
    assert agreed(mq, "q", [first, second, third]) == {
        first: "done",
        second: "waiting",
        third: "waiting",
    }


def test_a_delayed_message_in_the_middle_of_its_key_blocks_those_behind_it(mq: Caller) -> None:
    mq("create_queue", "q", "t", ordering="fifo")
    first = mq.publish("t", 1, key="k")
    delayed = mq.publish("t", 2, key="k", deliver_after=mq.at(seconds=60))
    last = mq.publish("t", 3, key="k")
    wanted = {first: "waiting", delayed: "delayed", last: "blocked"}
    assert agreed(mq, "q", [first, delayed, last]) == wanted
    assert blocker(mq, "q", last) == (delayed, "delayed", None)
    mq("release_message", "q", mq.consume("q")[0].message_id, "me")
    assert agreed(mq, "q", [first, delayed, last]) == wanted
    mq.ack("q", mq.consume("q")[0].message_id)
    assert agreed(mq, "q", [first, delayed, last]) == wanted | {first: "done"}
    assert blocker(mq, "q", last) == (delayed, "delayed", None)


def test_a_claim_that_is_over_blocks_nothing(mq: Caller) -> None:
    mq("create_queue", "q", "t", ordering="fifo")
    first, second = mq.publish_many("t", [1, 2], keys=["k"] * 2)
    mq.consume("q", vt=30)
    advance(mq.db, seconds=31)
    assert agreed(mq, "q", [first, second]) == {first: "claimed", second: "waiting"}


def test_runs_of_a_key_are_blocked_behind_what_is_claimed(mq: Caller) -> None:
    mq("create_queue", "q", "t", ordering="fifo")
    mq.db.execute("update penstock_data.queues set runs = true")
    ids = mq.publish_many("t", list(range(6)), keys=["k"] * 6)
    assert [row.message_id for row in mq.consume("q", 3)] == ids[:3]
    words = ["claimed"] * 3 + ["blocked"] * 3
    assert list(agreed(mq, "q", ids).values()) == words
    mq.nack("q", ids[1], delay_seconds=600)
    assert list(agreed(mq, "q", ids).values()) == ["claimed", "retrying", *words[2:]]
    assert blocker(mq, "q", ids[5]) == (ids[0], "claimed", "me")
    mq.ack("q", ids[0])
    assert blocker(mq, "q", ids[5]) == (ids[1], "retrying", None)
    mq("release_message", "q", ids[2], "me")
    assert list(agreed(mq, "q", ids).values()) == ["done", "retrying", *["blocked"] * 4]
    advance(mq.db, seconds=601)
    assert list(agreed(mq, "q", ids).values()) == ["done", *["waiting"] * 5]


def test_the_age_of_a_fifo_queue_is_that_of_its_oldest_message(mq: Caller) -> None:
    """Whatever is claimed: as long as it is due and not claimed it grows older."""
    for ordering in ("standard", "fifo"):
        mq("create_queue", ordering, "t", ordering=ordering)
    mq.publish_many("t", list(range(6)), keys=["a", "a", "a", "b", "b", "c"])
    advance(mq.db, seconds=26)
    mq.consume("fifo", 1, vt=600)
    assert age(mq, "fifo") == since(26)
    advance(mq.db, seconds=10)
    (head,) = mq.consume("fifo", 1, token="b", vt=600)
    assert mq.ack("fifo", head.message_id, "b")
    mq.consume("fifo", 1, token="c", vt=600)
    mq.consume("standard", 1, vt=600)
    assert age(mq, "fifo") == since(36)
    assert age(mq, "fifo") == pytest.approx(age(mq, "standard"), abs=20)
    assert overview(mq, "fifo").oldest_blocked_at == overview(mq, "fifo").oldest_waiting_at


@pytest.mark.parametrize("ordering", ["standard", "fifo", "fair"])
def test_the_age_counts_from_when_a_message_was_due(mq: Caller, ordering: str) -> None:
    mq("create_queue", "q", "t", ordering=ordering)
    mq.publish("t", 1, key="k", deliver_after=mq.at(seconds=60))
    mq.consume("q")  # the queue reads its log
    assert overview(mq).oldest_waiting_at is None
    advance(mq.db, seconds=75)
    assert age(mq, "q") == since(15)
    (claimed,) = mq.consume("q")
    mq.nack("q", claimed.message_id, delay_seconds=100)
    advance(mq.db, seconds=104)
    assert age(mq, "q") == since(4)
    mq("release_message", "q", mq.consume("q")[0].message_id, "me")
    assert age(mq, "q") == since(0)


@pytest.mark.parametrize("ordering", ["standard", "fifo", "fair"])
def test_a_message_with_a_priority_is_as_old_as_it_is(mq: Caller, ordering: str) -> None:
    mq("create_queue", "q", "t", ordering=ordering)
    mq.publish_many("t", [1, 2], keys=["a", "b"], priorities=[3, 3])
    advance(mq.db, seconds=40)
    mq.consume("q", 1)
    assert age(mq, "q") == since(40)


def test_a_dead_letter_that_is_requeued_waits_from_then_on(mq: Caller) -> None:
    mq("create_queue", "q", "t", max_delivery_attempts=1)
    mq.publish("t", 1)
    mq.nack("q", mq.consume("q")[0].message_id)
    advance(mq.db, seconds=500)
    mq("requeue_dlq_messages", "q")
    advance(mq.db, seconds=5)
    assert age(mq, "q") == since(5)


def test_waits_count_from_when_a_message_was_due(mq: Caller) -> None:
    mq("create_queue", "q", "t")
    before = mq.rows("activity")[0].snapshot
    mq.publish("t", 1, deliver_after=mq.at(seconds=60))
    advance(mq.db, seconds=63)
    mq.ack("q", mq.consume("q")[0].message_id)
    (row,) = [each for each in mq.rows("activity", before) if each.kind == "queue"]
    (wait,) = row.waits
    assert wait == since(3)
