"""The demo's figures: counted from what happened, checked against what was written."""

from __future__ import annotations

import pytest

from penstock.cli.demo_checks import (
    ANALYTICS,
    BILLING,
    Delivery,
    Kind,
    Plan,
    QueueRecord,
    Result,
    percentile,
)


def record(
    *deliveries: tuple[int, int, float], done: tuple[tuple[int, float], ...] = ()
) -> QueueRecord:
    return QueueRecord(
        dict.fromkeys(range(1, 10), 0.0),
        tuple(Delivery(*each) for each in deliveries),
        tuple(Delivery(order, 1, at) for order, at in done),
        (),
    )


@pytest.mark.parametrize(
    ("values", "share", "expected"),
    [
        ([], 0.5, None),
        ([7.0], 0.99, 7.0),
        ([1.0, 2.0, 3.0, 4.0], 0.5, 2.0),
        (list(range(1, 101)), 0.95, 95),
        (list(range(1, 101)), 0.99, 99),
        (list(range(1, 1001)), 0.999, 999),
    ],
)
def test_a_percentile_is_the_nearest_rank(
    values: list[float], share: float, expected: float | None
):
    assert percentile(values, share) == expected


def test_only_orders_published_before_and_delivered_after_were_overtaken():
    seen = record((1, 1, 1), (5, 1, 2), (2, 1, 3), (1, 2, 4), (3, 1, 5), (8, 1, 6))
    assert seen.overtaken_by(5) == 2
    assert seen.overtaken_by(5, without=frozenset({3})) == 1
    assert seen.overtaken_by(9) == 0


def test_a_latency_ends_with_the_first_delivery():
    assert record((1, 1, 0.5), (1, 2, 9.0)).latencies() == [0.5]


def test_an_order_delivered_three_times_is_one_retried_order():
    assert record((1, 1, 1), (1, 2, 2), (1, 3, 3), (2, 1, 1)).retried() == 1


def test_the_rate_runs_from_the_first_delivery_to_the_last_order_done():
    assert record((1, 1, 1.0), done=((1, 2.0), (2, 3.0))).rate() == 1.0
    assert record().rate() == 0.0


def test_an_order_done_twice_is_noticed():
    assert record(done=((1, 1.0), (2, 1.0), (1, 2.0))).done_twice() == [1]


def test_the_plan_numbers_its_orders_without_gaps_and_has_each_special_one_once():
    plan = Plan.made()
    numbers = [order.number for batch in plan.batches for order in batch.orders]
    assert numbers == list(range(1, len(numbers) + 1))
    for kind in (Kind.DELAYED, Kind.PRIORITY, Kind.POISONED):
        assert [o.kind for o in plan.orders.values()].count(kind) == 1


def test_failures_are_known_before_the_demo_starts():
    orders = list(Plan.made().orders.values())
    failing = [o for o in orders if o.number % 37 == 0 and o.kind is not Kind.POISONED]
    assert BILLING.expected_failures(orders) == len(failing) + 3
    assert ANALYTICS.expected_failures(orders) == 0


@pytest.mark.parametrize(
    ("delivered", "kept"),
    [
        ([1, 2, 61, 61, 62, 121], True),
        ([61, 1, 2], False),
        ([1, 61, 1], False),
    ],
)
def test_a_customer_s_orders_are_in_order_if_no_earlier_one_follows(
    delivered: list[int], kept: bool
):
    seen = record(*((order, 1, float(at)) for at, order in enumerate(delivered)))
    result = Result(Plan.made(), {"shipping": seen}, {}, {})
    assert result.order_kept().ok is kept
