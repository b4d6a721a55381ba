"""What plots share: scales from figures to places, the words on axes, the axis of time, colours."""

# ruff: noqa: PLR2004 - how many digits are shown

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from penstock.spark.pipelines.report import svg

if TYPE_CHECKING:
    from penstock.spark.pipelines.report.report_model import Report

WIDTH = 1040.0
LEFT, RIGHT = 56.0, 14.0
_STEPS = (1, 2, 2.5, 5, 10)
_SPANS = tuple(
    timedelta(seconds=s)
    for s in (
        *(0.1, 0.2, 0.5),
        *(1, 2, 5, 10, 15, 30),
        *(60, 120, 300, 600, 900, 1800),
        *(3600, 7200, 10800, 21600, 43200),
        *(86400, 172800, 604800, 2592000),
    )
)
_MINUTE, _HOUR, _DAY = 60.0, 3600.0, 86400.0


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


@dataclass(frozen=True, slots=True)
class Linear:
    """Maps [low, high] to [start, end]."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        share = (value - self.low) / (self.high - self.low) if self.high > self.low else 0.0
        return self.start + share * (self.end - self.start)

    def ticks(self, count: int = 5) -> list[float]:
        step = nice_step(self.high - self.low, count)
        first = math.ceil(self.low / step) * step
        return [first + n * step for n in range(int((self.high - first) / step + 1e-9) + 1)]


@dataclass(frozen=True, slots=True)
class Log:
    """The same by orders of magnitude; what is below `low` sits at its start."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        inside = min(max(value, self.low), self.high)
        share = math.log(inside / self.low) / math.log(self.high / self.low)
        return self.start + share * (self.end - self.start)

    def ticks(self) -> list[float]:
        first, last = (
            math.ceil(math.log10(self.low) - 1e-9),
            math.floor(math.log10(self.high) + 1e-9),
        )
        return [10.0**n for n in range(first, last + 1)]


def log_around(values: list[float], start: float, end: float) -> Log:
    """A scale of whole orders of magnitude around the values, two of them at least."""
    positive = [value for value in values if value > 0] or [0.001, 1.0]
    low = math.floor(math.log10(min(positive)))
    high = math.ceil(math.log10(max(positive)))
    return Log(10.0**low, 10.0 ** max(high, low + 2), start, end)


def nice_step(span: float, count: int) -> float:
    """1, 2, 2.5 or 5 times a power of ten, so that about `count` steps fit into the span."""
    if span <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(span / count))
    return next(step * power for step in _STEPS if step * power * count >= span * 0.999)


def bucket_for(span: timedelta, count: int = 72) -> timedelta:
    """How long a bar of a plot should last, so that about `count` of them fill the span."""
    return next((each for each in _SPANS if each * count >= span), _SPANS[-1])


def time_ticks(since: datetime, until: datetime, count: int = 7) -> list[datetime]:
    step = bucket_for(until - since, count)
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    first = epoch + math.ceil((since - epoch) / step) * step
    return (
        [first + n * step for n in range(int((until - first) / step) + 1)] if first <= until else []
    )


def clock(moment: datetime, step: timedelta) -> str:
    if step >= timedelta(days=1):
        return moment.strftime("%-d %b")
    if step >= timedelta(hours=1) and moment.hour == 0 and moment.minute == 0:
        return moment.strftime("%-d %b")
    if step >= timedelta(seconds=1):
        return moment.strftime("%H:%M" if step >= timedelta(minutes=1) else "%H:%M:%S")
    return moment.strftime("%H:%M:%S.%f")[:-5]


def duration(seconds: float | None) -> str:
    """Three digits and a unit: 0.4 ms, 23 ms, 1.2 s, 4 min, 3.5 h."""
    if seconds is None:
        return "-"
    for unit, size, above in (
        ("d", _DAY, 2 * _DAY),
        ("h", _HOUR, 2 * _HOUR),
        ("min", _MINUTE, 2 * _MINUTE),
        ("s", 1.0, 0.9995),
        ("ms", 0.001, 0.0009995),
    ):
        if seconds >= above:
            return f"{_digits(seconds / size)} {unit}"
    return f"{_digits(seconds * 1e6)} µs" if seconds > 0 else "0"


def _digits(value: float) -> str:
    return f"{value:.0f}" if value >= 10 or value == int(value) else f"{value:.1f}"


def count(value: float) -> str:
    """1,234 as it is; from ten thousand on 12.3k, 4.5M."""
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if abs(value) >= size * (10 if unit == "k" else 1):
            return f"{value / size:.1f}".rstrip("0").rstrip(".") + unit
    return f"{value:,.1f}" if 0 < abs(value) < 10 and value != int(value) else f"{value:,.0f}"


def share(part: float, whole: float) -> str:
    if whole <= 0:
        return "-"
    percent = 100 * part / whole
    if 0 < percent < 0.1:
        return "< 0.1 %"
    return f"{percent:.1f} %" if percent < 10 else f"{percent:.0f} %"
