"""suspect_messages: what may have killed its last consumer, when one attempt is left."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.fixtures.clock import advance

if TYPE_CHECKING:
    from tests.sql.caller import Caller


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
