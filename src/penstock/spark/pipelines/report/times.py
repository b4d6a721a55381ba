"""Plots of how long it took."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.spark.pipelines.report import svg
from penstock.spark.pipelines.report.axes import (
    RIGHT,
    WIDTH,
    clock_labels,
    colour,
    cut,
    rule,
    start,
    time_axis,
)
from penstock.spark.pipelines.report.scales import Linear, Log, count, duration, log_around

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.spark.pipelines.report.model import Bar, Bucket, QueueFigures, Report


def latency(report: Report, queue: str, number: int) -> str:
    """End-to-end time of one queue: a band from p50 to p95, a line for p99, by magnitudes."""
    height, base = 190.0, 158.0
    width = WIDTH / 2 - 10
    mine = [
        each for each in report.buckets if each.queue == queue and each.end_to_end.p50 is not None
    ]
    values = [v for b in report.buckets for v in (b.end_to_end.p50, b.end_to_end.p99) if v]
    up = log_around(values, base, 10)
    across = time_axis(report, width)
    middle = report.bucket.total_seconds() / 2
    spots = [
        (across((b.at - start(report)).total_seconds() + middle), up(b.end_to_end.p50 or 0),
         up(b.end_to_end.p95 or 0), up(b.end_to_end.p99 or 0))
        for b in mine
    ]  # fmt: skip
    band = [(x, low) for x, low, _, _ in spots] + [(x, high) for x, _, high, _ in reversed(spots)]
    return svg.canvas(
        width,
        height,
        *(rule(up(value), duration(value), width) for value in up.ticks()),
        *clock_labels(report, across, height - 10, width),
        svg.tag("path", d=svg.path(band, closed=True), class_=f"band {colour(number)}"),
        svg.tag(
            "path", d=svg.path([(x, far) for x, _, _, far in spots]), class_=f"far {colour(number)}"
        ),
        svg.tag(
            "path",
            d=svg.path([(x, low) for x, low, _, _ in spots]),
            class_=f"stroke {colour(number)}",
        ),
        *(_dot(spot, each) for spot, each in zip(spots, mine, strict=True)),
        label=f"End-to-end time of {queue}",
    )


def _dot(spot: tuple[float, float, float, float], bucket: Bucket) -> str:
    """An invisible column that tells the figures to the pointer."""
    times = bucket.end_to_end
    words = (
        f"{bucket.at:%H:%M:%S}  p50 {duration(times.p50)}, p95 {duration(times.p95)}, "
        f"p99 {duration(times.p99)}"
    )
    return svg.tag("rect", svg.hint(words), x=spot[0] - 4, y=8, width=8, height=150, class_="touch")


def distribution(report: Report) -> str:
    """How long messages took from end to end: one ridge a queue on one axis of magnitudes."""
    ridge, top = 74.0, 14.0
    height = top + ridge * len(report.queues) + 34
    across = log_around(
        [edge for bar in report.histogram for edge in (bar.low, bar.high)], 150, WIDTH - RIGHT
    )
    base = height - 30
    parts = [svg.line(across(v), top, across(v), base, "grid") for v in across.ticks()]
    parts += [
        svg.text(duration(v), across(v), height - 10, "tick", "middle") for v in across.ticks()
    ]
    for number, figures in enumerate(report.queues):
        bars = [bar for bar in report.histogram if bar.queue == figures.queue]
        parts += _ridge(figures, bars, number, across, top + ridge * (number + 1) - 6)
    return svg.canvas(WIDTH, height, *parts, label="Distribution of end-to-end times")


def _ridge(
    figures: QueueFigures, bars: Sequence[Bar], number: int, across: Log, base: float
) -> list[str]:
    tallest = max((bar.count for bar in bars), default=1)
    parts = [svg.text(cut(figures.queue), 138, base - 4, "name", "end")]
    for bar in bars:
        left, right = across(bar.low), across(bar.high)
        height = 54 * bar.count / tallest
        words = f"{count(bar.count)} between {duration(bar.low)} and {duration(bar.high)}"
        parts.append(
            svg.tag(
                "rect",
                svg.hint(words),
                x=left + 0.5,
                y=base - height,
                width=max(1.0, right - left - 1),
                height=max(1.0, height),
                rx=1.5,
                class_=f"fill {colour(number)}",
            )
        )
    parts.append(svg.line(150, base, WIDTH - RIGHT, base, "axis"))
    return parts + _marks(figures, across, base)


def _marks(figures: QueueFigures, across: Log, base: float) -> list[str]:
    """Where the percentiles are; one that has no room for its name goes without."""
    times, marks, free = figures.end_to_end, [], 0.0
    for name, value in (("p50", times.p50), ("p95", times.p95), ("p99", times.p99)):
        if value is not None:
            x = across(value)
            marks.append(_mark(x, base, name, value, named=x >= free))
            free = x + 26
    return marks


def _mark(x: float, base: float, name: str, value: float, *, named: bool) -> str:
    return svg.tag(
        "g",
        svg.hint(f"{name} {duration(value)}"),
        svg.line(x, base - 62, x, base, f"mark {name}"),
        *([svg.text(name, x + 4, base - 57, "tick small")] if named else []),
    )


def wait_and_work(report: Report) -> str:
    """Where the time goes: waiting for a consumer, or in its hands; the median and the slow end."""
    row, left = 58.0, 150.0
    height = row * len(report.queues) + 34
    pairs = [
        (q.wait.p50 or 0, q.work.p50 or 0, q.wait.p95 or 0, q.work.p95 or 0) for q in report.queues
    ]
    longest = max((max(a + b, c + d) for a, b, c, d in pairs), default=1) or 1
    across = Linear(0, longest * 1.24, left, WIDTH - RIGHT)
    parts = [svg.line(across(v), 6, across(v), height - 30, "grid") for v in across.ticks(6)]
    parts += [
        svg.text(duration(v), across(v), height - 10, "tick", "middle") for v in across.ticks(6)
    ]
    for number, (figures, pair) in enumerate(zip(report.queues, pairs, strict=True)):
        top = 10 + number * row
        parts.append(svg.text(cut(figures.queue), left - 12, top + 25, "name", "end"))
        parts += _two_parts(across, top, pair[0], pair[1], "median")
        parts += _two_parts(across, top + 21, pair[2], pair[3], "p95")
    return svg.canvas(WIDTH, height, *parts, label="Waiting and working time by queue")


def _two_parts(across: Linear, y: float, wait: float, work: float, name: str) -> list[str]:
    start, turn, end = across(0), across(wait), across(wait + work)
    return [
        svg.tag(
            "rect",
            svg.hint(f"waiting, {name}: {duration(wait)}"),
            x=start,
            y=y,
            width=max(1.0, turn - start),
            height=15,
            rx=2,
            class_="fill wait",
        ),
        svg.tag(
            "rect",
            svg.hint(f"working, {name}: {duration(work)}"),
            x=turn + 1,
            y=y,
            width=max(1.0, end - turn - 1),
            height=15,
            rx=2,
            class_="fill work",
        ),
        svg.text(f"{name}  {duration(wait)} + {duration(work)}", end + 8, y + 12, "tick"),
    ]
