"""What may have killed its last consumer, when one attempt is left; when that attempt counts.

suspect_messages, defer_suspects, begin_attempt.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from penstock.client import calls
from tests.fixtures.clock import advance
from tests.sql.caller import Caller

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.fixtures.databases import Connect


@pytest.fixture(autouse=True)
def queue(mq: Caller) -> None:
    mq("create_queue", "q", "t", max_delivery_attempts=3)


def suspects(mq: Caller, token: str = "me") -> set[int]:
    return {row[0] for row in mq.rows("suspect_messages", "q", token)}


def expire(mq: Caller) -> None:
    assert mq.consume("q", token="dead")
    advance(mq.db, seconds=31)


def test_it_is_one_on_the_last_attempt_after_a_claim_that_ended_without_an_answer(
    mq: Caller,
) -> None:
    first, second = mq.publish("t", 1), mq.publish("t", 2)
    for _ in range(2):
        assert mq.consume("q", token="dead", count=2)
        assert suspects(mq, "dead") == set()
        advance(mq.db, seconds=31)
    mq.publish("t", 3)
    assert len(mq.consume("q", count=3)) == 3
    assert suspects(mq) == {first, second}
    assert suspects(mq, "other") == set()


def test_one_that_only_failed_is_none(mq: Caller) -> None:
    message_id = mq.publish("t", 1)
    for _ in range(2):
        mq.consume("q")
        mq("nack_message", "q", message_id, "me", 0)
    mq.consume("q")
    assert suspects(mq) == set()


def test_one_that_failed_after_its_claim_had_ended_is_one_still(mq: Caller) -> None:
    message_id = mq.publish("t", 1)
    expire(mq)
    mq.consume("q")
    mq("nack_message", "q", message_id, "me", 0)
    mq.consume("q")
    assert suspects(mq) == {message_id}


def test_giving_one_back_leaves_it_under_suspicion(mq: Caller) -> None:
    message_id = mq.publish("t", 1)
    expire(mq)
    expire(mq)
    mq.consume("q")
    mq("release_message", "q", message_id, "me")
    assert suspects(mq) == set()
    mq.consume("q", token="next")
    assert suspects(mq, "next") == {message_id}


def test_without_a_limit_of_attempts_there_is_no_last_one(mq: Caller) -> None:
    mq("create_queue", "patient", "t", max_delivery_attempts=0)
    mq.publish("t", 1)
    for _ in range(3):
        mq.consume("patient")
        advance(mq.db, seconds=31)
    mq.consume("patient")
    assert mq.rows("suspect_messages", "patient", "me") == []


def claim(mq: Caller, token: str = "me", count: int = 10) -> dict[int, tuple[int, bool]]:
    """Claim and defer as a worker does; by id: the attempt, and whether it is deferred."""
    call = calls.consume_deferring("q", token, timedelta(seconds=30), count)
    found = call.read(mq.query(call.sql, *call.parameters))
    return {each.id: (each.attempt, each.id in found.suspects) for each in found.messages}


def doubtful(mq: Caller, count: int = 1, **options: Any) -> list[int]:
    """Messages with one attempt left, after two that ended without an answer."""
    ids = [mq.publish("t", number, **options) for number in range(count)]
    for _ in range(2):
        while mq.consume("q", token="dead"):
            pass
        advance(mq.db, seconds=31)
    return ids


def die(mq: Caller) -> None:
    """What is claimed gets no answer."""
    advance(mq.db, seconds=31)


def dead(mq: Caller) -> dict[int, int]:
    """The dead letters, and their attempts."""
    return {row.message_id: row.delivery_attempts for row in mq.rows("list_dlq_messages", "q")}


def test_a_deferred_attempt_that_did_not_begin_is_not_counted(mq: Caller) -> None:
    [message_id] = doubtful(mq)
    for round_ in range(5):
        assert claim(mq, f"me {round_}") == {message_id: (3, True)}
        die(mq)
    assert claim(mq) == {message_id: (3, True)}
    assert mq.ack("q", message_id)
    assert mq.state("q", message_id) == "done"


def test_a_deferred_attempt_counts_once_it_has_begun(mq: Caller) -> None:
    [message_id] = doubtful(mq)
    claim(mq)
    assert mq("begin_attempt", "q", message_id, "me") is True
    die(mq)
    assert claim(mq) == {}
    assert dead(mq) == {message_id: 3}


def test_only_suspects_are_deferred(mq: Caller) -> None:
    first, second = doubtful(mq, 2)
    fresh = mq.publish("t", 3)
    assert claim(mq) == {first: (3, True), second: (3, True), fresh: (1, False)}
    die(mq)
    assert claim(mq) == {first: (3, True), second: (3, True), fresh: (2, False)}
    die(mq)
    assert claim(mq) == {first: (3, True), second: (3, True), fresh: (3, True)}
    assert dead(mq) == {}


def test_one_that_only_failed_is_not_deferred(mq: Caller) -> None:
    message_id = mq.publish("t", 1)
    for _ in range(2):
        claim(mq)
        mq("nack_message", "q", message_id, "me", 0)
    assert claim(mq) == {message_id: (3, False)}
    die(mq)
    claim(mq)
    assert dead(mq) == {message_id: 3}


def test_an_attempt_that_has_begun_is_not_deferred_again(mq: Caller) -> None:
    first, second = doubtful(mq, 2)
    assert claim(mq, count=1) == {first: (3, True)}
    mq("begin_attempt", "q", first, "me")
    assert claim(mq) == {second: (3, True)}
    assert mq.column("defer_suspects", "q", "me") == []
    die(mq)
    assert claim(mq) == {second: (3, True)}
    assert dead(mq) == {first: 3}


def test_the_history_and_the_statistics_tell_of_a_release(mq: Caller) -> None:
    [message_id] = doubtful(mq)
    claim(mq)
    [held] = mq.rows("inspect_message", "q", message_id)
    assert (held.state, held.delivery_attempts) == ("claimed", 3)
    before = held.history
    assert [each["outcome"] for each in before] == ["expired", "expired"]
    die(mq)
    mq.consume("q", token="other")
    mq("release_message", "q", message_id, "other")
    [back] = mq.rows("inspect_message", "q", message_id)
    assert (back.state, back.delivery_attempts, back.history) == ("waiting", 2, before)
    outcomes = mq.query(
        "select outcome, token, attempts from penstock_data.receipts order by xid, ended_at"
    )
    assert [(row.outcome, row.token, row.attempts) for row in outcomes] == [
        ("expired", "dead", [1]),
        ("expired", "dead", [2]),
        ("released", "me", [3]),
        ("released", "other", [3]),
    ]
    statistics = mq.statistics("q")
    assert (statistics.pending_count, statistics.processing_count, statistics.dead_count) == (
        1,
        0,
        0,
    )


def test_only_the_holder_begins_an_attempt(mq: Caller) -> None:
    [message_id] = doubtful(mq)
    claim(mq)
    assert mq("begin_attempt", "q", message_id, "other") is False
    assert mq("begin_attempt", "q", message_id + 1, "me") is False
    assert mq("begin_attempt", "q", None, "me") is False
    assert mq("begin_attempt", "q", message_id, None) is False
    assert mq.column("defer_suspects", "q", "other") == []
    die(mq)
    # The claim has ended, before and after the next one.
    assert mq("begin_attempt", "q", message_id, "me") is False
    assert claim(mq, "next") == {message_id: (3, True)}
    assert mq("begin_attempt", "q", message_id, "me") is False
    die(mq)
    assert claim(mq) == {message_id: (3, True)}


def test_an_attempt_begins_once_however_often_it_is_said(mq: Caller) -> None:
    [message_id] = doubtful(mq)
    claim(mq)
    for _ in range(3):
        assert mq("begin_attempt", "q", message_id, "me") is True
    assert [row.delivery_attempts for row in mq.rows("inspect_message", "q", message_id)] == [3]
    assert mq.ack("q", message_id)


def test_an_attempt_that_was_not_deferred_may_begin_too(mq: Caller) -> None:
    first, second = mq.publish("t", 1), mq.publish("t", 2)
    mq.consume("q")
    assert mq("begin_attempt", "q", second, "me") is True
    die(mq)
    assert claim(mq) == {first: (2, False), second: (2, False)}


ANSWERS: list[tuple[str, Callable[[Caller, int], object]]] = [
    ("done", lambda mq, each: mq.ack("q", each)),
    ("waiting", lambda mq, each: mq("release_message", "q", each, "me")),
    ("dead", lambda mq, each: mq.nack("q", each)),
    ("dead", lambda mq, each: mq("bury_message", "q", each, "me")),
]


@pytest.mark.parametrize(("state", "answer"), ANSWERS, ids=["ack", "release", "nack", "bury"])
def test_a_deferred_message_can_be_answered_as_any_other(
    mq: Caller, state: str, answer: Callable[[Caller, int], object]
) -> None:
    """A failure counts, whether or not the attempt was said to have begun."""
    first, second, third = doubtful(mq, 3)
    claim(mq)
    assert answer(mq, second)
    assert mq.state("q", second) == state
    die(mq)
    rest = {first: (3, True), third: (3, True)}
    assert claim(mq) == (rest if state != "waiting" else {**rest, second: (3, True)})


@pytest.mark.parametrize(("state", "answer"), ANSWERS, ids=["ack", "release", "nack", "bury"])
def test_what_becomes_of_a_neighbour_changes_nothing(
    mq: Caller, state: str, answer: Callable[[Caller, int], object]
) -> None:
    suspects_, fresh = doubtful(mq, 2), [mq.publish("t", number) for number in range(3)]
    claim(mq)
    mq("begin_attempt", "q", suspects_[1], "me")
    answer(mq, fresh[1])
    die(mq)
    found = claim(mq)
    assert found[suspects_[0]] == (3, True)
    assert suspects_[1] not in found
    assert found[fresh[0]] == found[fresh[2]] == (2, False)
    assert dead(mq)[suspects_[1]] == 3


def test_a_longer_claim_keeps_what_was_deferred_and_what_has_begun(mq: Caller) -> None:
    waits, begun = doubtful(mq, 2)
    claim(mq)
    mq("begin_attempt", "q", begun, "me")
    extended = mq.rows("batch_extend_message_vt", "q", [waits, begun], "me", 30)
    assert {row.message_id for row in extended} == {waits, begun}
    advance(mq.db, seconds=31)
    assert claim(mq) == {}
    assert mq("begin_attempt", "q", begun, "me") is True
    advance(mq.db, seconds=31)
    assert claim(mq) == {waits: (3, True)}
    assert dead(mq) == {begun: 3}


def test_a_fifo_key_waits_for_a_deferred_message(mq: Caller) -> None:
    mq("delete_queue", "q")
    mq("create_queue", "q", "t", max_delivery_attempts=3, ordering="fifo")
    head = mq.publish("t", 1, key="a")
    for _ in range(2):
        assert mq.consume("q", token="dead")
        advance(mq.db, seconds=31)
    behind = mq.publish("t", 2, key="a")
    assert claim(mq) == {head: (3, True)}
    assert claim(mq, "other") == {}
    die(mq)
    assert claim(mq) == {head: (3, True)}
    assert claim(mq, "other") == {}
    mq("begin_attempt", "q", head, "me")
    assert claim(mq, "other") == {}
    die(mq)
    assert claim(mq) == {behind: (1, False)}
    assert dead(mq) == {head: 3}


def test_a_fair_queue_keeps_the_keys_of_deferred_messages(mq: Caller) -> None:
    mq("delete_queue", "q")
    mq("create_queue", "q", "t", max_delivery_attempts=3, ordering="fair")
    ids = doubtful(mq, 2, key="a")
    for _ in range(2):
        assert claim(mq) == dict.fromkeys(ids, (3, True))
        lanes = mq.query(
            "select c.message_ids[1], c.lanes[1] from penstock_data.claims c where c.token = 'me'"
        )
        assert dict(lanes) == dict.fromkeys(ids, "a")
        die(mq)


def test_it_works_under_repeatable_read(mq: Caller, connect: Connect) -> None:
    [message_id] = doubtful(mq)
    with connect(isolation="repeatable read", autocommit=False) as session:
        strict = Caller(session)
        assert claim(strict) == {message_id: (3, True)}
        session.commit()
        die(mq)
        assert claim(strict) == {message_id: (3, True)}
        session.commit()
        assert strict("begin_attempt", "q", message_id, "me") is True
        session.commit()
    die(mq)
    assert claim(mq) == {}
    assert dead(mq) == {message_id: 3}


def test_a_claim_that_is_rolled_back_defers_nothing(mq: Caller, connect: Connect) -> None:
    [message_id] = doubtful(mq)
    with connect(autocommit=False) as session:
        assert claim(Caller(session), "gone") == {message_id: (3, True)}
        session.rollback()
    assert claim(mq) == {message_id: (3, True)}


def test_without_a_limit_of_attempts_nothing_is_deferred(mq: Caller) -> None:
    mq("create_queue", "patient", "t", max_delivery_attempts=0)
    mq.publish("t", 1)
    for _ in range(3):
        mq.consume("patient")
        advance(mq.db, seconds=31)
    mq.consume("patient")
    assert mq.column("defer_suspects", "patient", "me") == []
