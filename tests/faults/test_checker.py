"""The checker itself: each broken promise is seen."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest

from tests.faults.checker import Receipt, judge, punctuality
from tests.faults.ledger import Entry, Step

PUBLISHED = [Entry(Step.ATTEMPT, 1), Entry(Step.ACKED, 1)]
ONCE = {10: Counter(acked=1)}


def test_history_without_faults_is_kept() -> None:
    verdict = judge([*PUBLISHED, Entry(Step.DELIVERED, 1, 10)], ONCE)
    assert verdict.kept
    assert (verdict.acknowledged, verdict.delivered, verdict.duplicated) == (1, 1, 0)


def test_acknowledged_and_never_delivered_is_lost() -> None:
    assert judge(PUBLISHED, {}).lost == (1,)


def test_unknown_and_never_delivered_is_not_lost() -> None:
    assert judge([Entry(Step.ATTEMPT, 1), Entry(Step.UNKNOWN, 1)], {}).kept


def test_unknown_and_delivered_is_recovered() -> None:
    history = [Entry(Step.ATTEMPT, 1), Entry(Step.UNKNOWN, 1), Entry(Step.DELIVERED, 1, 10)]
    verdict = judge(history, ONCE)
    assert verdict.kept
    assert verdict.recovered == 1


def test_delivered_and_never_attempted_is_unexpected() -> None:
    assert judge([Entry(Step.DELIVERED, 1, 10)], ONCE).unexpected == (1,)


def test_two_messages_of_one_number_are_stored_twice() -> None:
    twice = [*PUBLISHED, Entry(Step.DELIVERED, 1, 10), Entry(Step.DELIVERED, 1, 11)]
    assert judge(twice, {**ONCE, 11: Counter(acked=1)}).stored_twice == (1,)


@pytest.mark.parametrize(
    ("outcomes", "explained"),
    [
        (Counter(acked=1, expired=1), True),
        (Counter(acked=1, failed=1), True),
        (Counter(acked=1), False),
        (Counter(acked=2), False),
        (Counter(expired=2), False),
    ],
)
def test_second_delivery_needs_a_claim_that_ended_without_ack(
    outcomes: Counter[str], *, explained: bool
) -> None:
    history = [*PUBLISHED, Entry(Step.DELIVERED, 1, 10), Entry(Step.DELIVERED, 1, 10)]
    verdict = judge(history, {10: outcomes})
    assert verdict.duplicated == 1
    assert verdict.kept is explained


def test_crash_explains_a_claim_without_a_receipt() -> None:
    history = [*PUBLISHED, Entry(Step.DELIVERED, 1, 10), Entry(Step.DELIVERED, 1, 10)]
    assert judge(history, ONCE, crashes=1).kept
    assert not judge(history, {10: Counter(acked=2)}, crashes=1).kept


START = datetime(2030, 1, 1, tzinfo=UTC)
SECOND = timedelta(seconds=1)


def history(*claims: tuple[str, float]) -> list[Receipt]:
    """One message's claims: how each ended, and when it began."""
    return [Receipt(10, outcome, START + begun * SECOND) for outcome, begun in claims]


def test_redelivery_is_counted_from_the_end_of_the_claim() -> None:
    found = punctuality(
        history(("expired", 0), ("expired", 2.5), ("acked", 5.25)), claim=2 * SECOND, allowed=SECOND
    )
    assert (found.redelivered, found.late) == (2, ())
    assert found.worst == timedelta(seconds=0.75)


def test_redelivery_that_takes_longer_than_allowed_is_late() -> None:
    found = punctuality(history(("expired", 0), ("acked", 3.1)), claim=2 * SECOND, allowed=SECOND)
    assert found.late == (10,)


def test_what_failed_or_was_released_has_its_own_time() -> None:
    claims = history(("failed", 0), ("released", 60), ("acked", 120))
    found = punctuality(claims, claim=2 * SECOND, allowed=SECOND)
    assert (found.redelivered, found.late) == (0, ())
