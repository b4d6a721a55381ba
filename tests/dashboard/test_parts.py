"""The parts that decide, without a database: rules, rates, charts, text_filters."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from penstock.client.facts import Activity, Consumer, FailingStep, Holder, QueueNow, Reader
from penstock.dashboard import charts, text_filters
from penstock.dashboard.attention import Level, concerns
from penstock.dashboard.charts import MOST_QUEUES, picture
from penstock.dashboard.poller import wait_after
from penstock.dashboard.samples import Flow, Sample, Samples, flows_of, percentiles

NOW = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)
QUEUE = QueueNow("q", "t", "standard", None, 0, 0, 0, 0, None, None)


def sample(queue: QueueNow = QUEUE, *, at: datetime = NOW, **more: Any) -> Sample:
    flow = Flow(waiting=queue.waiting)
    return Sample(1, at, 2.0, {queue.name: queue}, {queue.name: flow}, {queue.topic: 0.0}, **more)


def kinds(now: Sample, *before: Sample) -> list[str]:
    ring = Samples()
    for each in (*before, now):
        ring.add(each)
    return [each.kind for each in concerns(now, ring)]


def test_a_calm_queue_needs_no_attention() -> None:
    assert kinds(sample(replace(QUEUE, waiting=5, oldest_waiting_at=NOW))) == []


@pytest.mark.parametrize(
    ("queue", "kind"),
    [
        (replace(QUEUE, dead=1), "dead letters"),
        (replace(QUEUE, paused_at=NOW), "paused"),
        (replace(QUEUE, waiting=1, oldest_waiting_at=NOW - timedelta(minutes=6)), "old head"),
        (replace(QUEUE, claimed=1, oldest_claimed_at=NOW - timedelta(hours=2)), "long claim"),
    ],
)
def test_a_queue_that_needs_attention_is_named(queue: QueueNow, kind: str) -> None:
    assert kinds(sample(queue)) == [kind]


@pytest.mark.parametrize(
    ("before", "after", "grows"), [(0, 200, True), (1000, 1150, False), (200, 0, False)]
)
def test_a_backlog_grows_when_it_is_much_larger_than_a_minute_ago(
    before: int, after: int, grows: bool
) -> None:
    then = sample(replace(QUEUE, waiting=before), at=NOW - timedelta(seconds=50))
    found = kinds(sample(replace(QUEUE, waiting=after)), then)
    assert ("growing backlog" in found) is grows


def test_holders_and_readers_are_named_when_they_are_old_enough() -> None:
    old = Holder("transaction", "web", 7, "app", "idle in transaction", NOW - timedelta(hours=1), 9)
    young = replace(old, since=NOW - timedelta(minutes=2))
    slot = Holder("replication slot", "copy", None, None, "inactive", None, 9)
    lazy = Reader("spark", "t", NOW, None, 5, NOW - timedelta(hours=1))
    found = kinds(sample(holders=[old, young, slot], readers=[lazy, replace(lazy, oldest_at=NOW)]))
    assert found == ["pinned horizon", "pinned horizon", "reader holds the log"]


def test_a_step_of_housekeeping_that_fails_again_is_an_alarm() -> None:
    step = FailingStep("segments emptied", NOW - timedelta(hours=2), 9, "no replica identity")
    once = replace(step, failures=1)
    ring = Samples()
    (found,) = concerns(sample(failing=[step, once]), ring)
    assert (found.level, found.kind, found.name) == (
        Level.ALARM,
        "housekeeping fails",
        "segments emptied",
    )
    assert found.what == "for 2 h, 9 times: no replica identity"


def test_the_worst_comes_first() -> None:
    queue = replace(QUEUE, dead=1, paused_at=NOW, oldest_claimed_at=NOW - timedelta(hours=2))
    ring = Samples()
    ring.add(sample(queue))
    levels = [each.level for each in concerns(sample(queue), ring)]
    assert levels == [Level.ALARM, Level.WARNING, Level.NOTE]


def test_rates_are_per_second_and_weighed_by_time() -> None:
    none: dict[str, Any] = dict.fromkeys(("failed", "released", "expired", "dead", "lapsed"), 0)
    activity = [
        Activity("topic", "t", "1:1:", 20, 0, waits=None, works=None, complete=True, **none),
        Activity("queue", "q", "1:1:", None, 10, waits=[1.0], works=[2.0], complete=True, **none),
    ]
    flows, topics = flows_of([QUEUE], activity, 2.0)
    assert (flows["q"].came, flows["q"].done, topics["t"]) == (10.0, 5.0, 10.0)
    assert flows_of([QUEUE], activity, 0.0)[0]["q"].done == 0.0
    ring = Samples()
    ring.add(replace(sample(at=NOW - timedelta(seconds=2)), flows=flows, seconds=1.0))
    ring.add(replace(sample(), seconds=3.0))
    assert ring.rate("q", "done") == pytest.approx(1.25)
    assert ring.rate("unknown", "done") == 0.0
    found = ring.latency("q", "works")
    assert found is not None
    assert found.p99 == 2.0


def test_samples_before_a_long_absence_are_not_joined_to_those_after() -> None:
    ring = Samples()
    for seconds in (600, 598, 4, 2, 0):
        ring.add(sample(at=NOW - timedelta(seconds=seconds)))
    assert len(ring.flows("q")) == 3


def test_a_worker_between_two_claims_is_still_there() -> None:
    ring = Samples()
    consumer = Consumer("q", "w", 1, [1], NOW, NOW, None)
    ring.add(sample(at=NOW - timedelta(seconds=40), consumers=[replace(consumer, token="gone")]))
    ring.add(sample(at=NOW - timedelta(seconds=4), consumers=[consumer]))
    ring.add(sample(consumers=[replace(consumer, token="other")]))
    assert [(each.token, each.claimed) for each in ring.consumers()] == [("other", 1), ("w", 0)]


def test_percentiles_are_values_that_were_seen() -> None:
    found = percentiles(float(value) for value in range(1, 101))
    assert found is not None
    assert (found.p50, found.p95, found.p99) == (50, 95, 99)
    assert percentiles([]) is None


@pytest.mark.parametrize(
    ("took", "wait"),
    [
        ([5.0], 1.8),
        ([5.0, 0.1, 0.001], 1.8),
        ([0.1, 0.1, 0.1], 10.0),
        ([9.0, 0.1, 7.0], 10.0),
    ],
)
def test_a_dear_question_is_asked_seldom(took: list[float], wait: float) -> None:
    assert wait_after(took, 2.0, 0.01) == pytest.approx(wait)


def test_charts_fit_their_frame() -> None:
    times = [NOW + timedelta(seconds=n) for n in range(10)]
    made = charts.chart(
        "x",
        times,
        [
            charts.Series("a", "c1", [float(n) for n in range(10)]),
            charts.Series("b", "c2", [None] * 10),
        ],
        label=text_filters.rate,
    )
    pairs = [tuple(map(float, pair.split(","))) for pair in made.lines[0].points.split()]
    assert all(made.left <= x <= made.width and 0 <= y <= made.height for x, y in pairs)
    assert made.lines[1].points == ""
    assert "a now 9.0" in made.summary
    assert charts.chart("x", [], [], label=text_filters.rate).lines == []
    assert charts.spark([]).line == ""
    assert charts.thinned([1.0] * 99 + [7.0])[-1] == 7.0


def test_the_picture_joins_topics_queues_and_consumers() -> None:
    queue = replace(QUEUE, waiting=3)
    consumer = Consumer("q", "w", 1, [1], NOW, NOW, None)
    ring = Samples()
    ring.add(sample(queue, consumers=[consumer]))
    drawn = picture(sample(queue, consumers=[consumer]), ring)
    assert {(box.kind, box.detail) for box in drawn.boxes} == {
        ("topic", "0/s published"),
        ("queue", "3 waiting"),
        ("consumers", "1 busy, 0 idle"),
    }
    assert len(drawn.edges) == 2
    many = {f"q{n}": replace(QUEUE, name=f"q{n}") for n in range(MOST_QUEUES + 5)}
    assert picture(replace(sample(), queues=many), ring).left_out == 5


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (text_filters.readable("Zoë".encode()), "Zoë"),
        (text_filters.readable("Zoë".encode()[:3]), "Zo"),
        (text_filters.readable(b"\xff\x00"), "base64:/wA="),
        (text_filters.count(10_001), "10,000+"),
        (text_filters.count(9_999), "9,999"),
        (text_filters.rate(0), "0"),
        (text_filters.rate(1.26), "1.3"),
        (text_filters.rate(12_345), "12.3k"),
        (text_filters.seconds(0.0001), "<1 ms"),
        (text_filters.seconds(0.25), "250 ms"),
        (text_filters.seconds(61), "1 min 01 s"),
        (text_filters.span(timedelta(days=2, hours=3)), "2 d 03 h"),
        (text_filters.span(timedelta(minutes=3)), "3 min"),
        (text_filters.ago(NOW + timedelta(seconds=5), NOW), "0 s"),
        (text_filters.until(NOW - timedelta(seconds=5), NOW), "5 s ago"),
        (text_filters.moment("2026-01-01T12:00:00+00:00"), "2026-01-01 12:00:00"),
        (text_filters.moment("nonsense"), "nonsense"),
        (text_filters.size(2048), "2.0 KiB"),
        (text_filters.pretty('{"a":1}'), '{\n  "a": 1\n}'),
        (text_filters.pretty('{"a":'), '{"a":'),
    ],
)
def test_numbers_and_times_as_people_read_them(value: str, shown: str) -> None:
    assert value == shown
