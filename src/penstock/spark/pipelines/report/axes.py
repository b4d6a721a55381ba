"""What plots share: their width, their colours, the axis of time."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from penstock.spark.pipelines.report import svg
from penstock.spark.pipelines.report.scales import Linear, clock, time_ticks

if TYPE_CHECKING:
    from penstock.spark.pipelines.report.model import Report

WIDTH = 1040.0
LEFT, RIGHT = 56.0, 14.0


def colour(number: int) -> str:
    """The class of the nth queue; there are eight colours."""
    return f"c{number % 8}"


def time_axis(report: Report, width: float = WIDTH, left: float = LEFT) -> Linear:
    return Linear(0, max(1.0, (end(report) - start(report)).total_seconds()), left, width - RIGHT)


def start(report: Report) -> datetime:
    return min((each.at for each in report.buckets), default=report.made_at)


def end(report: Report) -> datetime:
    return max((each.at for each in report.buckets), default=report.made_at) + report.bucket


def clock_labels(report: Report, across: Linear, y: float, width: float = WIDTH) -> list[str]:
    ticks = time_ticks(start(report), end(report), 9 if width == WIDTH else 4)
    step = ticks[1] - ticks[0] if len(ticks) > 1 else timedelta(seconds=1)
    return [
        svg.text(clock(t, step), across((t - start(report)).total_seconds()), y, "tick", "middle")
        for t in ticks
    ]


def rule(y: float, words: str, width: float = WIDTH) -> str:
    return svg.line(LEFT, y, width - RIGHT, y, "grid") + svg.text(
        words, LEFT - 8, y + 4, "tick", "end"
    )


def cut(name: str, longest: int = 20) -> str:
    return name if len(name) <= longest else f"{name[: longest - 1]}…"
