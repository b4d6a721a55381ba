"""The plots of the report: how much was done, how much of it failed, and how long it took."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.spark.pipelines.report import svg
from penstock.spark.pipelines.report.axes import (
    LEFT,
    RIGHT,
    WIDTH,
    Linear,
    Log,
    clock_labels,
    colour,
    count,
    cut,
    duration,
    log_around,
    rule,
    share,
    start,
    time_axis,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from penstock.spark.pipelines.report.report_model import Bar, Bucket, QueueFigures, Report


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


def throughput(report: Report) -> str:
    """Messages done per second, stacked by queue; failed attempts hang below the line."""
    height, base, floor = 300.0, 216.0, 262.0
    across = time_axis(report)
    seconds = report.bucket.total_seconds()
    moments = _by_moment(report.buckets)
    tallest = max((sum(each.done for each in group) for group in moments.values()), default=0)
    deepest = max((sum(each.failures for each in group) for group in moments.values()), default=0)
    up = Linear(0, max(tallest / seconds, 1e-9) * 1.06, base, 12)
    down = Linear(0, max(deepest, 1), 0, floor - base - 8)
    names = [each.queue for each in report.queues]
    width = max(1.2, across(report.bucket.total_seconds()) - across(0) - 1.5)
    bars = []
    for moment, group in moments.items():
        x = across((moment - start(report)).total_seconds()) + 0.75
        bars += _stack(group, names, up, x=x, width=width, seconds=seconds)
        bars += _hanging(group, x, width, base, down)
    return svg.canvas(
        WIDTH,
        height,
        *(rule(up(value), f"{count(value)}/s") for value in up.ticks(4)),
        *clock_labels(report, across, height - 12),
        *bars,
        svg.line(LEFT, base, WIDTH - RIGHT, base, "axis"),
        *([svg.text("failed", LEFT - 8, base + 22, "tick bad", "end")] if deepest else []),
        label="Messages done per second, by queue",
    )


def _stack(
    group: Sequence[Bucket],
    names: list[str],
    up: Linear,
    *,
    x: float,
    width: float,
    seconds: float,
) -> list[str]:
    bars, below = [], 0.0
    for each in sorted(group, key=lambda b: names.index(b.queue)):
        if not each.done:
            continue
        rate = each.done / seconds
        top, bottom = up(below + rate), up(below)
        below += rate
        words = f"{each.queue}: {count(each.done)} done, {count(rate)}/s at {each.at:%H:%M:%S}"
        number = names.index(each.queue)
        bars.append(
            svg.tag(
                "rect",
                svg.hint(words),
                x=x,
                y=top,
                width=width,
                height=max(0.6, bottom - top - 0.6),
                rx=min(1.5, width / 3),
                class_=f"fill {colour(number)}",
            )
        )
    return bars


def _hanging(
    group: Sequence[Bucket], x: float, width: float, base: float, down: Linear
) -> list[str]:
    failures = sum(each.failures for each in group)
    if not failures:
        return []
    words = f"{count(failures)} failed attempts at {group[0].at:%H:%M:%S}"
    height = max(1.5, down(failures))
    return [
        svg.tag(
            "rect",
            svg.hint(words),
            x=x,
            y=base + 3,
            width=width,
            height=height,
            rx=1,
            class_="fill bad",
        )
    ]


def _by_moment(buckets: Sequence[Bucket]) -> dict[datetime, list[Bucket]]:
    found: dict[datetime, list[Bucket]] = {}
    for each in buckets:
        found.setdefault(each.at, []).append(each)
    return found


def spark(report: Report, queue: str, number: int) -> str:
    """A queue's throughput as a line for its card."""
    width, height = 300.0, 54.0
    mine = {each.at: each.done for each in report.buckets if each.queue == queue}
    moments = sorted({each.at for each in report.buckets})
    across = Linear(0, max(1, len(moments) - 1), 2, width - 2)
    up = Linear(0, max([*mine.values(), 1]), height - 3, 4)
    points = [(across(n), up(mine.get(moment, 0))) for n, moment in enumerate(moments)]
    if len(points) == 1:
        points = [(2.0, points[0][1]), (width - 2, points[0][1])]
    area = [(points[0][0], height), *points, (points[-1][0], height)] if points else []
    return svg.canvas(
        width,
        height,
        svg.tag("path", d=svg.path(area, closed=True), class_=f"band {colour(number)}"),
        svg.tag("path", d=svg.path(points), class_=f"stroke {colour(number)}"),
        label=f"Throughput of {queue}",
    )


def outcomes(figures: QueueFigures) -> str:
    """One bar: done at the first attempt, done after retries, dead."""
    width, total = 300.0, max(1, figures.finished)
    parts, x = [], 0.0
    for kind, amount in (
        ("good", figures.done_at_once),
        ("again", figures.done - figures.done_at_once),
        ("bad", figures.dead),
    ):
        if amount:
            size = max(3.0, width * amount / total)
            words = {"good": "at the first attempt", "again": "after retries", "bad": "dead"}[kind]
            said = f"{count(amount)} {words} ({share(amount, total)})"
            parts.append(
                svg.tag(
                    "rect", svg.hint(said), x=x, y=0, width=size, height=8, class_=f"fill {kind}"
                )
            )
            x += size + 1.5
    return svg.canvas(max(width, x), 8, *parts, label="Outcomes")


def heat(report: Report) -> str:
    """Failed attempts by queue and time; the darker, the larger the share of all attempts."""
    row, left = 26.0, 150.0
    across = time_axis(report, left=left)
    height = row * len(report.queues) + 30
    names = [each.queue for each in report.queues]
    cell = max(1.5, across(report.bucket.total_seconds()) - across(0) - 1)
    parts = [svg.text(cut(n), left - 12, row * i + 17, "name", "end") for i, n in enumerate(names)]
    for each in report.buckets:
        attempts = each.done + each.failures
        if not attempts:
            continue
        words = f"{each.at:%-d %b %H:%M:%S}: {each.failures} of {attempts} attempts failed"
        x = across((each.at - start(report)).total_seconds())
        y = row * names.index(each.queue) + 3
        strength = 0.0 if not each.failures else 0.18 + 0.82 * (each.failures / attempts) ** 0.5
        parts.append(
            svg.tag("rect", x=x, y=y, width=cell, height=row - 6, rx=2, class_="fill calm")
        )
        parts.append(
            svg.tag(
                "rect",
                svg.hint(words),
                x=x,
                y=y,
                width=cell,
                height=row - 6,
                rx=2,
                class_="fill bad",
                fill_opacity=strength,
            )
        )
    return svg.canvas(
        WIDTH,
        height,
        *parts,
        *clock_labels(report, across, height - 8),
        label="Failed attempts by time",
    )
