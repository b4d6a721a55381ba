"""ordering => 'fair': keys take turns."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

from tests.fixtures.clock import advance

if TYPE_CHECKING:
    from tests.sql.caller import Caller


@pytest.fixture(autouse=True)
def queue(mq: Caller) -> None:
    mq("create_queue", "q", "t", ordering="fair", max_delivery_attempts=3)


def publish(mq: Caller, *payloads: str, **options: object) -> list[int]:
    return [mq.publish("t", payload, key=payload[0], **options) for payload in payloads]


def test_keys_take_turns(mq: Caller) -> None:
    publish(mq, *[f"a{n}" for n in range(6)], "b0", "b1", "c0")
    assert mq.payloads("q", 9) == ["a0", "b0", "c0", "a1", "b1", "a2", "a3", "a4", "a5"]


def test_noisy_key_does_not_starve_a_quiet_one_that_comes_late(mq: Caller) -> None:
    publish(mq, *[f"n{n}" for n in range(300)])
    assert len(mq.consume("q", 50)) == 50
    publish(mq, "q0", "q1")
    assert {"q0", "q1"} <= set(mq.payloads("q", 4))


def test_late_key_gets_no_more_than_its_share(mq: Caller) -> None:
    publish(mq, *[f"a{n}" for n in range(40)])
    assert len(mq.consume("q", 20)) == 20
    publish(mq, *[f"b{n}" for n in range(40)])
    shares = Counter(payload[0] for payload in mq.payloads("q", 20))
    assert abs(shares["a"] - shares["b"]) <= 2


def test_messages_of_a_key_keep_their_order(mq: Caller) -> None:
    publish(mq, *[f"{key}{n:02}" for n in range(20) for key in "ab"])
    seen = mq.drain("q", batch=3)
    for key in "ab":
        mine = [payload for payload in seen if payload[0] == key]
        assert mine == sorted(mine)
        assert len(mine) == 20


def test_a_key_may_have_several_messages_in_flight(mq: Caller) -> None:
    publish(mq, "a1", "a2", "a3")
    assert mq.payloads("q", 2) == ["a1", "a2"]
    assert mq.payloads("q", 2) == ["a3"]


def test_message_without_a_key_is_its_own_key(mq: Caller) -> None:
    publish(mq, *[f"a{n}" for n in range(5)])
    for number in range(3):
        mq.publish("t", f"-{number}")
    assert set(mq.payloads("q", 4)) == {"a0", "-0", "-1", "-2"}


def test_priority_goes_before_turns(mq: Caller) -> None:
    publish(mq, "a1", "a2", "b1")
    publish(mq, "a3", "a4", priority=5)
    found = mq.payloads("q", 5)
    assert found[:2] == ["a3", "a4"]
    assert sorted(found[2:]) == ["a1", "a2", "b1"]


def test_retry_comes_back_after_its_delay(mq: Caller) -> None:
    ids = publish(mq, "a1", "a2", "b1")
    assert len(mq.consume("q", 1)) == 1
    mq.nack("q", ids[0], delay_seconds=30)
    assert sorted(mq.payloads("q", 5, vt=600)) == ["a2", "b1"]
    advance(mq.db, seconds=31)
    assert [(r.payload, r.delivery_attempts) for r in mq.consume("q")] == [("a1", 2)]


def test_expired_and_released_messages_come_back(mq: Caller) -> None:
    ids = publish(mq, "a1", "b1")
    mq.consume("q", vt=10)
    mq("release_message", "q", ids[1], "me")
    assert mq.payloads("q") == ["b1"]
    advance(mq.db, seconds=11)
    assert mq.payloads("q") == ["a1"]


def test_delayed_message_takes_its_turn_when_due(mq: Caller) -> None:
    publish(mq, "a1", deliver_after=mq.at(seconds=10))
    publish(mq, *[f"b{n}" for n in range(50)])
    assert mq.payloads("q", 5) == [f"b{n}" for n in range(5)]
    advance(mq.db, seconds=11)
    assert "a1" in mq.payloads("q", 3)


def test_dead_letters_of_a_fair_queue_can_be_requeued(mq: Caller) -> None:
    ids = publish(mq, "a1", "b1")
    mq.consume("q")
    for message_id in ids:
        mq("bury_message", "q", message_id, "me")
    assert mq("requeue_dlq_messages", "q") == 2
    assert sorted(mq.payloads("q")) == ["a1", "b1"]


def test_nothing_is_lost_or_given_twice_over_many_small_claims(mq: Caller) -> None:
    published = [f"{key}{n}" for n in range(40) for key in "abcde"[: n % 5 + 1]]
    publish(mq, *published)
    assert sorted(mq.drain("q", batch=7)) == sorted(published)
    assert mq.statistics("q").pending_count == 0
