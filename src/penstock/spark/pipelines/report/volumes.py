"""Plots of how much was done, and how much of it failed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.spark.pipelines.report import svg
from penstock.spark.pipelines.report.axes import (
    LEFT,
    RIGHT,
    WIDTH,
    clock_labels,
    colour,
    cut,
    rule,
    start,
    time_axis,
)
from penstock.spark.pipelines.report.scales import Linear, count, share

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from penstock.spark.pipelines.report.model import Bucket, QueueFigures, Report


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
