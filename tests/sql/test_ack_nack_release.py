"""ack, nack, bury and release, one and many: tokens, splitting, backoff."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.fixtures.clock import advance
from tests.fixtures.maintenance import maintain
from tests.sql.refusals import nothing_changes

if TYPE_CHECKING:
    from tests.sql.caller import Caller

ENDINGS = ["ack_message", "nack_message", "release_message", "bury_message"]


@pytest.fixture(autouse=True)
def queue(mq: Caller) -> None:
    mq("create_queue", "q", "t", retry_base_seconds=10, retry_cap_seconds=60)


def claim(mq: Caller, count: int, **options: Any) -> list[int]:
    mq.publish_many("t", list(range(count)))
    return [row.message_id for row in mq.consume("q", count, **options)]


def test_acked_message_is_done_and_never_comes_back(mq: Caller) -> None:
    (message_id,) = claim(mq, 1)
    assert mq.ack("q", message_id) is True
    assert mq.state("q", message_id) == "done"
    advance(mq.db, seconds=3600)
    assert mq.consume("q") == []


@pytest.mark.parametrize("ending", ENDINGS)
def test_ending_a_claim_twice_is_false_the_second_time(mq: Caller, ending: str) -> None:
    (message_id,) = claim(mq, 1)
    assert mq(ending, "q", message_id, "me") is True
    with nothing_changes(mq.db):
        assert mq(ending, "q", message_id, "me") is False


@pytest.mark.parametrize("ending", ENDINGS)
def test_wrong_token_changes_nothing(mq: Caller, ending: str) -> None:
    (message_id,) = claim(mq, 1)
    with nothing_changes(mq.db):
        assert mq(ending, "q", message_id, "you") is False
        assert mq(ending, "q", message_id, "ME") is False
        assert mq(ending, "q", message_id + 1, "me") is False
    assert mq.state("q", message_id) == "claimed"


@pytest.mark.parametrize("ending", ENDINGS)
def test_expired_token_changes_nothing_even_before_anyone_claims_again(
    mq: Caller, ending: str
) -> None:
    (message_id,) = claim(mq, 1, vt=10)
    advance(mq.db, seconds=11)
    with nothing_changes(mq.db):
        assert mq(ending, "q", message_id, "me") is False
    assert [r.delivery_attempts for r in mq.consume("q", token="next")] == [2]
    with nothing_changes(mq.db):
        assert mq(ending, "q", message_id, "me") is False
    assert mq.ack("q", message_id, "next") is True


@pytest.mark.parametrize("ending", ENDINGS)
def test_claim_of_one_queue_is_not_ended_through_another(mq: Caller, ending: str) -> None:
    mq("create_queue", "other", "t")
    (message_id,) = claim(mq, 1)
    with nothing_changes(mq.db):
        assert mq(ending, "other", message_id, "me") is False


@pytest.mark.parametrize("ending", ENDINGS)
def test_ending_one_message_of_a_batch_leaves_the_others_claimed(mq: Caller, ending: str) -> None:
    ids = claim(mq, 5)
    assert mq(ending, "q", ids[2], "me") is True
    assert [mq.state("q", i) == "claimed" for i in ids] == [True, True, False, True, True]
    rest = [i for i in ids if i != ids[2]]
    assert sorted(mq.column("ack_messages", "q", ids, "me")) == rest
    assert [mq.state("q", i) for i in rest] == ["done"] * 4


def test_ack_messages_returns_the_ids_that_were_held(mq: Caller) -> None:
    ids = claim(mq, 4)
    assert mq.ack("q", ids[0])
    assert sorted(mq.column("ack_messages", "q", [*ids[:3], ids[1], 999_999], "me")) == ids[1:3]
    assert mq.column("ack_messages", "q", [], "me") == []
    assert mq.state("q", ids[3]) == "claimed"


def test_ack_messages_spans_claims_of_one_token_only(mq: Caller) -> None:
    ids = mq.publish_many("t", list(range(6)))
    mq.consume("q", 2, token="a")
    mq.consume("q", 2, token="b")
    mq.consume("q", 2, token="a")
    assert sorted(mq.column("ack_messages", "q", ids, "a")) == [*ids[:2], *ids[4:]]
    assert sorted(mq.column("ack_messages", "q", ids, "b")) == ids[2:4]


def test_many_ids_are_sorted_out_among_claims_that_interleave(mq: Caller) -> None:
    """Held, of another token, finished and never seen, in any order and some of them twice."""
    mine: list[int] = []
    for size in (700, 1, 40, 259):
        ids = claim(mq, size, token="me")
        mine += ids[::2]
        claim(mq, size, token="you")
    asked = [*mine, *mine[:50], *range(1, 2001), *range(10**6, 10**6 + 5_000), 2**40]
    held = [row.message_id for row in mq.rows("browse_messages", "q", 0, 10_000)]
    assert len(held) == 2000
    done = mq.column("ack_messages", "q", asked[::-1], "me")
    assert sorted(done) == [i for i in held if mq.state("q", i) == "done"]
    assert len(done) == 1000
    assert mq.column("ack_messages", "q", asked, "me") == []
    assert len(mq.column("ack_messages", "q", asked, "you")) == 1000


def test_a_claim_of_ten_thousand_is_acked_among_fifty_thousand_ids(mq: Caller) -> None:
    """Were each id compared with each, this alone would take longer than all tests of this file."""
    ids = claim(mq, 10_000)
    strangers = range(10**6, 10**6 + 40_000)
    done = mq.column("ack_messages", "q", [*strangers, *ids[1:]], "me")
    assert sorted(done) == ids[1:]
    assert mq.state("q", ids[0]) == "claimed"


def test_splitting_keeps_attempts_with_their_messages(mq: Caller) -> None:
    ids = claim(mq, 2)
    mq.nack("q", ids[0], delay_seconds=0)
    mq.nack("q", ids[1], delay_seconds=0)
    again = {r.message_id: r.delivery_attempts for r in mq.consume("q", 1)}
    mq.publish("t", "fresh", priority=1)
    mq("release_message", "q", next(iter(again)), "me")
    batch = mq.consume("q", 10)
    attempts = {r.message_id: r.delivery_attempts for r in batch}
    assert sorted(attempts.values()) == [1, 2, 2]
    fresh = next(i for i, n in attempts.items() if n == 1)
    mq.nack("q", fresh, delay_seconds=0)
    for i in attempts:
        if i != fresh:
            mq.nack("q", i, delay_seconds=0)
    after = {r.message_id: r.delivery_attempts for r in mq.consume("q", 10)}
    assert after == {i: n + 1 for i, n in attempts.items()}


def test_nacked_message_comes_back_after_its_delay_with_the_next_attempt(mq: Caller) -> None:
    (message_id,) = claim(mq, 1)
    assert mq.nack("q", message_id, delay_seconds=20) is True
    assert mq.state("q", message_id) == "retrying"
    advance(mq.db, seconds=19)
    assert mq.consume("q") == []
    advance(mq.db, seconds=2)
    assert [(r.message_id, r.delivery_attempts) for r in mq.consume("q")] == [(message_id, 2)]


def test_nack_with_a_delay_of_zero_brings_it_back_at_once(mq: Caller) -> None:
    (message_id,) = claim(mq, 1)
    mq.nack("q", message_id, delay_seconds=0)
    assert [r.delivery_attempts for r in mq.consume("q")] == [2]


def test_backoff_doubles_up_to_the_cap_with_a_little_chance(mq: Caller) -> None:
    mq("create_queue", "patient", "t", max_delivery_attempts=0, retry_base_seconds=10,
       retry_cap_seconds=60)  # fmt: skip
    mq.publish("t", 1)
    for expected in (10, 20, 40, 60, 60):
        (row,) = mq.consume("patient")
        mq.nack("patient", row.message_id)
        due = mq("get_next_visible_time", "patient")
        wait = due - mq.at(seconds=0)
        assert timedelta(seconds=expected * 0.8 - 1) < wait <= timedelta(seconds=expected)
        advance(mq.db, seconds=expected * 0.8 - 1)
        assert mq.consume("patient") == []
        advance(mq.db, seconds=expected * 0.2 + 1)


def test_nack_messages_gives_back_many_and_returns_the_ids_held(mq: Caller) -> None:
    ids = claim(mq, 4)
    mq.ack("q", ids[0])
    assert sorted(mq.column("nack_messages", "q", ids, "me", 5, "no luck")) == ids[1:]
    assert mq.consume("q") == []
    advance(mq.db, seconds=6)
    assert sorted(r.message_id for r in mq.consume("q")) == ids[1:]


def test_fail_messages_tells_which_of_them_died(mq: Caller) -> None:
    mq("create_queue", "strict", "t", max_delivery_attempts=2)
    old = mq.publish("t", 1)
    mq.consume("strict")
    mq.nack("strict", old, delay_seconds=0)
    new = mq.publish("t", 2)
    gone = mq.publish("t", 3)
    assert len(mq.consume("strict", 3)) == 3
    mq.ack("strict", gone)
    told = mq.rows("fail_messages", "strict", [old, new, gone], "me", 5, "no luck")
    assert {row.message_id: row.dead for row in told} == {old: True, new: False}
    assert [row.last_error for row in mq.rows("list_dlq_messages", "strict")] == ["no luck"]
    assert mq("message_state", "strict", new) == "retrying"


def test_released_message_comes_back_at_once_and_the_attempt_is_not_counted(mq: Caller) -> None:
    (message_id,) = claim(mq, 1)
    for _ in range(10):
        assert mq("release_message", "q", message_id, "me") is True
        assert [(r.message_id, r.delivery_attempts) for r in mq.consume("q")] == [(message_id, 1)]
    assert mq.rows("list_dlq_messages") == []


def test_release_after_a_failure_keeps_the_failures_that_counted(mq: Caller) -> None:
    (message_id,) = claim(mq, 1)
    mq.nack("q", message_id, delay_seconds=0)
    assert mq.consume("q")[0].delivery_attempts == 2
    mq("release_message", "q", message_id, "me")
    assert mq.consume("q")[0].delivery_attempts == 2


def test_release_messages_gives_back_many(mq: Caller) -> None:
    ids = claim(mq, 4)
    assert sorted(mq.column("release_messages", "q", ids[:3], "me")) == ids[:3]
    assert [mq.state("q", i) for i in ids] == ["waiting"] * 3 + ["claimed"]
    assert sorted(r.message_id for r in mq.consume("q")) == ids[:3]


def test_bury_message_makes_a_dead_letter_at_once(mq: Caller) -> None:
    (message_id,) = claim(mq, 1)
    assert mq("bury_message", "q", message_id, "me", "unreadable") is True
    assert mq.state("q", message_id) == "dead"
    (dead,) = mq.rows("list_dlq_messages", "q")
    assert (dead.message_id, dead.delivery_attempts) == (message_id, 1)
    assert dead.last_error == "unreadable"


def test_ack_on_the_last_attempt_is_no_dead_letter(mq: Caller) -> None:
    mq("create_queue", "once", "t", max_delivery_attempts=1)
    message_id = mq.publish("t", 1)
    mq.consume("once", vt=30)
    advance(mq.db, seconds=29)
    maintain(mq.db)
    assert mq.state("once", message_id) == "claimed"
    assert mq.ack("once", message_id)
    assert mq.rows("list_dlq_messages") == []


def test_long_error_is_cut_and_kept(mq: Caller) -> None:
    (message_id,) = claim(mq, 1)
    assert mq("bury_message", "q", message_id, "me", "x" * 100_000)
    assert len(mq.rows("list_dlq_messages", "q")[0].last_error) == 10_000


@given(
    base=st.integers(0, 31_536_000_000),
    cap=st.integers(0, 31_536_000_000),
    attempt=st.integers(1, 2**31 - 1),
)
@example(base=60_000, cap=300_000, attempt=39)
@settings(
    max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_every_backoff_lies_between_four_fifths_of_its_length_and_all_of_it(
    mq: Caller, base: int, cap: int, attempt: int
) -> None:
    longest = min(cap, base * 2 ** min(attempt - 1, 70)) / 1000
    found = mq.value(
        "select extract(epoch from penstock_data.backoff("
        "%s * interval '1 millisecond', %s * interval '1 millisecond', %s))",
        base,
        cap,
        attempt,
    )
    assert longest * 0.8 - 0.001 <= float(found) <= longest + 0.001


def test_a_message_that_failed_often_does_not_take_its_batch_along(mq: Caller) -> None:
    mq("create_queue", "often", "t", max_delivery_attempts=0, retry_base_seconds=60)
    first, second = mq.publish_many("t", [1, 2])
    mq.consume("often")
    mq.value("update penstock_data.claims set attempts = '{39, 1}' returning 1")
    assert mq.column("nack_messages", "often", [first, second], "me") == [first, second]
