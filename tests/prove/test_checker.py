"""The checker itself: each broken promise is seen."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest

from prove.checker import judge, within
from prove.ledger import Entry, Step
from prove.punctuality import Receipt, punctuality

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
    history = [*PUBLISHED, Entry(Step.DELIVERED, 1, 10, 1), Entry(Step.DELIVERED, 1, 10, 2)]
    verdict = judge(history, {10: outcomes})
    assert verdict.duplicated == 1
    assert verdict.kept is explained


def test_crash_explains_a_claim_without_a_receipt() -> None:
    history = [*PUBLISHED, Entry(Step.DELIVERED, 1, 10), Entry(Step.DELIVERED, 1, 10)]
    assert judge(history, ONCE, crashes=1).kept
    assert not judge(history, {10: Counter(acked=2)}, crashes=1).kept


def test_one_attempt_delivered_twice_is_claimed_twice_unless_a_crash_forgot_the_claim() -> None:
    history = [*PUBLISHED, Entry(Step.DELIVERED, 1, 10, 1), Entry(Step.DELIVERED, 1, 10, 1)]
    claims = {10: Counter(acked=1, expired=1)}
    assert judge(history, claims).claimed_twice == (10,)
    assert judge(history, claims, crashes=1).claimed_twice == ()


def test_failed_server_takes_along_the_receipts_of_what_nobody_was_promised() -> None:
    unknown = [Entry(Step.ATTEMPT, 1), Entry(Step.UNKNOWN, 1), Entry(Step.DELIVERED, 1, 10, 1)]
    assert judge(unknown, {}).unexplained == (10,)
    assert judge(unknown, {}, failed_over=True).kept
    promised = [*PUBLISHED, Entry(Step.DELIVERED, 1, 10, 1)]
    assert judge(promised, {}, failed_over=True).unexplained == (10,)


def in_order(*steps: tuple[Step, int]) -> list[Entry]:
    return [Entry(step, number, number + 10, 1, "customer-7") for step, number in steps]


STORED = [step for number in (1, 2) for step in ((Step.ATTEMPT, number), (Step.ACKED, number))]


def test_first_deliveries_of_a_key_follow_its_publisher() -> None:
    deliveries = [(Step.DELIVERED, 1), (Step.DELIVERED, 2), (Step.DELIVERED, 1)]
    assert judge(in_order(*STORED, *deliveries), {}, ordered=True).inverted == ()


def test_message_delivered_before_an_earlier_one_of_its_key_is_out_of_order() -> None:
    deliveries = [(Step.DELIVERED, 2), (Step.DELIVERED, 1)]
    assert judge(in_order(*STORED, *deliveries), {}, ordered=True).inverted == (2,)
    assert judge(in_order(*STORED, *deliveries), {}).inverted == ()


def test_what_nobody_acknowledged_has_no_place_in_the_order() -> None:
    told = [(Step.ATTEMPT, 1), (Step.UNKNOWN, 1), (Step.ATTEMPT, 2), (Step.ACKED, 2)]
    deliveries = [(Step.DELIVERED, 2), (Step.DELIVERED, 1)]
    assert judge(in_order(*told, *deliveries), {}, ordered=True).inverted == ()


def test_each_queue_is_judged_by_its_own_deliveries() -> None:
    history = [
        Entry(Step.ATTEMPT, 1, place="customer-7"),
        Entry(Step.ACKED, 1),
        Entry(Step.ATTEMPT, 2),
        Entry(Step.ACKED, 2),
        Entry(Step.DELIVERED, 1, 10, 1, "billing"),
        Entry(Step.DELIVERED, 2, 11, 1, "billing"),
    ]
    claims = {10: Counter(acked=1), 11: Counter(acked=1)}
    assert judge(within(history, "billing"), claims).kept
    assert judge(within(history, "statements", keyed=True), {}).lost == (1,)


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
