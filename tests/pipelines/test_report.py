"""The page: true to its figures, safe whatever a queue is called, and whole in one file."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from xml.etree import ElementTree as ET

import pytest

from penstock.spark.pipelines.analyse_figures import short_names
from penstock.spark.pipelines.report import Report, render
from penstock.spark.pipelines.report.axes import (
    bucket_for,
    count,
    duration,
    log_around,
    nice_step,
    share,
    time_ticks,
)
from penstock.spark.pipelines.report.report_model import (
    Bar,
    Bucket,
    Group,
    Percentiles,
    QueueFigures,
    Reason,
)

EVIL = '<script>alert("x")</script>'
START = datetime(2026, 1, 31, 9, tzinfo=UTC)
TIMES = Percentiles(0.01, 0.1, 2.0)


def report() -> Report:
    names = ("billing", EVIL)
    return Report(
        title=EVIL,
        made_at=START,
        since=START,
        until=START + timedelta(seconds=40),
        bucket=timedelta(seconds=5),
        queues=tuple(
            QueueFigures(name, 120, 100, 20, 1, 23, TIMES, TIMES, TIMES) for name in names
        ),
        buckets=tuple(
            Bucket(name, START + n * timedelta(seconds=5), 15, n % 2, 0, TIMES)
            for name in names
            for n in range(8)
        ),
        histogram=tuple(Bar(name, 0.01, 0.02, 60) for name in names),
        reasons=(Reason(EVIL, EVIL, 23, 20, START),),
        keys=(Group(EVIL, EVIL, 7, 1, 1, TIMES),),
        tenants=(Group("billing", "acme", 7, 1, 1, TIMES), Group("billing", None, 7, 1, 1)),
        tables={"attempts": EVIL},
    )


def test_the_page_is_whole_and_runs_nothing():
    page = render(report())
    assert "<script" not in page
    assert not re.search(r"(src|href)\s*=", page)
    assert "url(" not in page
    assert "prefers-color-scheme: dark" in page
    assert "default-src 'none'" in page


def test_every_plot_is_well_formed_and_has_a_name():
    plots = re.findall(r"<svg.*?</svg>", render(report()), re.DOTALL)
    # A card's line and its bar for each queue, throughput, distribution, times, and failures.
    assert len(plots) == 2 * 2 + 1 + 1 + 2 + 1 + 1
    for plot in plots:
        assert ET.fromstring(plot).get("aria-label")
        assert "nan" not in plot
        assert "inf" not in plot


def test_it_says_the_figures_in_words():
    page = render(report())
    assert "<b>240</b> deliveries done in <b>2</b> queues" in page
    assert "<b>46</b> attempts failed (16 %)" in page
    assert "<b>2</b> messages died" in page
    assert "Saturday, 31 January 2026, 09:00:00 to 09:00:40 UTC, a period of 40 s" in page


def test_nothing_and_little_can_be_shown_too():
    assert "No message was finished" in render(Report("empty", START))
    alone = Report(
        "one", START, START, START, queues=(QueueFigures("q", done=1, done_at_once=1),),
        buckets=(Bucket("q", START, 1),),
    )  # fmt: skip
    assert "<b>1</b> deliveries done in <b>1</b> queue." in render(alone)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(None, "-"), (0, "0"), (2.5e-5, "25 µs"), (0.0004, "400 µs"), (0.0234, "23 ms"),
     (0.9999, "1.0 s"),
     (1.25, "1.2 s"), (90, "90 s"), (240, "4 min"), (9000, "2.5 h"), (2 * 86400, "2 d")],
)  # fmt: skip
def test_durations_are_short(seconds: float | None, words: str):
    assert duration(seconds) == words


def test_counts_and_shares_are_short():
    assert [count(each) for each in (0, 7, 7.25, 999, 9999, 12345, 4.5e6)] == [
        "0",
        "7",
        "7.2",
        "999",
        "9,999",
        "12.3k",
        "4.5M",
    ]
    assert [share(*each) for each in ((0, 0), (1, 10000), (1, 50), (1, 3))] == [
        "-",
        "< 0.1 %",
        "2.0 %",
        "33 %",
    ]


def test_axes_have_round_steps():
    assert [nice_step(span, 5) for span in (10, 7, 0.3)] == [2, 2, pytest.approx(0.1)]
    assert bucket_for(timedelta(seconds=10)) == timedelta(milliseconds=200)
    assert bucket_for(timedelta(seconds=40)) == timedelta(seconds=1)
    assert bucket_for(timedelta(days=7)) == timedelta(hours=3)
    ticks = time_ticks(START, START + timedelta(minutes=10), 5)
    assert [each.minute for each in ticks] == [0, 2, 4, 6, 8, 10]
    scale = log_around([0.02, 0.5], 0, 100)
    assert (scale.low, scale.high) == (0.01, 1.0)
    assert (scale(0.01), scale(1.0)) == (0, 100)


def test_names_lose_what_they_all_begin_with():
    assert short_names(["demo-1-billing", "demo-1-shipping"]) == {
        "demo-1-billing": "billing",
        "demo-1-shipping": "shipping",
    }
    assert short_names(["billing", "bills"]) == {"billing": "billing", "bills": "bills"}
    assert short_names(["only-one"]) == {"only-one": "only-one"}
