"""The arithmetic of the benchmarks, without a database."""

from __future__ import annotations

import pytest

from bench import figures
from bench.ledger import DeliveryError, Ledger
from bench.model import Case, Result, Sample
from bench.payloads import PAYLOAD_BYTES, Payload, Stream
from bench.sizes import FULL, QUICK, chosen
from bench.targets import CourseTarget, Metric, RatioTarget, Status, Where


def sample(cpu_us: float, wal: int = 0, messages: int = 10, seconds: float = 1.0) -> Sample:
    cpu = {"claim": round(cpu_us * 1000 * messages)}
    return Sample(messages, seconds, cpu, server_cpu_ns=0, wal_bytes=wal * messages)


def result(contestant: str, *costs: float, course: bool = False, messages: int = 10) -> Result:
    samples = tuple(sample(cost, messages=messages) for cost in costs)
    return Result("claim-ack", Case("batch 1"), contestant, samples, course=course)


def at(contestant: str) -> Where:
    return Where("claim-ack", "batch 1", contestant)


RATIO = RatioTarget("single", Metric.CPU, at("penstock"), (at("a"), at("b")), limit=1.0)
COURSE = CourseTarget("course", at("penstock"), limit=1.1, least_messages=80, edge=2)


def test_percentile_takes_the_nearest_rank() -> None:
    values = [float(value) for value in range(1, 101)]
    assert figures.percentile(values, 0.5) == 50
    assert figures.percentile(values, 0.99) == 99
    assert figures.percentile([7.0], 0.95) == 7


@pytest.mark.parametrize("share", [0.0, 1.5, -1.0])
def test_percentile_refuses_a_share_outside_the_whole(share: float) -> None:
    with pytest.raises(ValueError, match="share"):
        figures.percentile([1.0], share)


def test_percentiles_are_milliseconds_and_none_without_values() -> None:
    assert figures.percentiles([0.001, 0.002, 0.003]) == figures.Percentiles(2.0, 3.0, 3.0)
    assert figures.percentiles([]) is None


def test_ratio_needs_both_figures() -> None:
    assert figures.ratio(1.0, 4.0) == 0.25
    assert figures.ratio(None, 4.0) is None
    assert figures.ratio(1.0, 0.0) is None


def test_course_is_compared_by_the_medians_of_its_edges() -> None:
    assert figures.end_over_start([10, 12, 99, 22, 22], edge=2) == 2.0
    assert figures.end_over_start([10, 12, 14], edge=2) is None


@pytest.mark.parametrize(
    ("total", "parts", "expected"), [(10, 3, [4, 3, 3]), (2, 5, [1, 1]), (6, 2, [3, 3])]
)
def test_shares_add_up_and_none_is_empty(total: int, parts: int, expected: list[int]) -> None:
    assert figures.shares(total, parts) == expected


def test_repeats_give_the_median_and_a_course_the_whole() -> None:
    repeats = result("penstock", 1, 2, 9)
    assert repeats.cpu_us == pytest.approx(2)
    course = Result("x", Case("c"), "p", (sample(1, seconds=1), sample(1, seconds=4)), course=True)
    assert course.rate == pytest.approx(20 / 5)


def test_target_is_reached_against_the_best_reference() -> None:
    verdict = RATIO.judge([result("penstock", 5), result("a", 9), result("b", 6)])
    assert verdict.status is Status.REACHED
    assert verdict.value == pytest.approx(5 / 6)


def test_target_is_missed_when_one_reference_is_better() -> None:
    verdict = RATIO.judge([result("penstock", 5), result("a", 9), result("b", 4)])
    assert verdict.status is Status.MISSED


def test_target_is_not_judged_without_its_figures() -> None:
    skipped = Result("claim-ack", Case("batch 1"), "penstock", skipped="not installed")
    assert RATIO.judge([skipped, result("a", 9)]).status is Status.NOT_JUDGED
    assert COURSE.judge([]).status is Status.NOT_JUDGED


def test_course_target_wants_enough_messages() -> None:
    flat = [10.0] * 8
    assert COURSE.judge([result("penstock", *flat, course=True)]).status is Status.REACHED
    short = COURSE.judge([result("penstock", *flat, course=True, messages=9)])
    assert short.status is Status.NOT_JUDGED
    rising = [10.0] * 4 + [20.0] * 4
    assert COURSE.judge([result("penstock", *rising, course=True)]).status is Status.MISSED


def test_payloads_are_numbered_and_alike_in_size() -> None:
    stream = Stream()
    assert [payload.number for payload in stream.take(3)] == [0, 1, 2]
    assert [len(batch) for batch in stream.batches(25, 10)] == [10, 10, 5]
    assert stream.following == 28
    assert {len(Payload(number).text) for number in (0, 12_345, 999_999)} == {PAYLOAD_BYTES}


def test_ledger_refuses_a_second_delivery_to_the_same_queue() -> None:
    ledger = Ledger()
    ledger.note([1, 2], queue=0)
    ledger.note([1, 2], queue=1)
    with pytest.raises(DeliveryError, match="message 2 was delivered twice to queue 0"):
        ledger.note([2], queue=0)


def test_sizes_can_be_overruled() -> None:
    assert chosen(quick=False, messages=None, repeats=None) == FULL
    sizes = chosen(quick=True, messages=70, repeats=1)
    assert (sizes.backlog, sizes.course, sizes.repeats) == (70, 70, 1)
    assert sizes.calls == QUICK.calls


@pytest.mark.parametrize("batch", [1, 10, 100])
def test_a_round_holds_whole_batches(batch: int) -> None:
    assert FULL.messages_for(batch) % batch == 0
    assert QUICK.messages_for(batch) > 0
