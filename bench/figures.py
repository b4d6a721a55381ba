"""Arithmetic on measurements: no clock, no database."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


@dataclass(frozen=True, slots=True)
class Percentiles:
    """Latencies in milliseconds."""

    p50: float
    p95: float
    p99: float


def percentile(sorted_values: Sequence[float], share: float) -> float:
    """The smallest value that at least `share` of all values do not exceed (nearest rank)."""
    if not sorted_values:
        raise ValueError("no values to take a percentile of")
    if not 0 < share <= 1:
        raise ValueError(f"share must be in (0, 1], not {share}")
    return sorted_values[math.ceil(share * len(sorted_values)) - 1]


def percentiles(seconds: Iterable[float]) -> Percentiles | None:
    values = sorted(value * 1000 for value in seconds)
    if not values:
        return None
    return Percentiles(*(percentile(values, share) for share in (0.50, 0.95, 0.99)))


def ratio(value: float | None, reference: float | None) -> float | None:
    """How many times the reference; None when either is missing or the reference is nothing."""
    if value is None or not reference:
        return None
    return value / reference


def middle(values: Iterable[float]) -> float | None:
    known = list(values)
    return median(known) if known else None


def end_over_start(course: Sequence[float], edge: int) -> float | None:
    """Cost at the end of a course over that at its start, each the median of `edge` slices."""
    if len(course) < 2 * edge:
        return None
    return ratio(median(course[-edge:]), median(course[:edge]))


def shares(total: int, parts: int) -> list[int]:
    """`total` cut into at most `parts` whole pieces of nearly the same size, none empty."""
    parts = max(1, min(total, parts))
    small, extra = divmod(total, parts)
    return [small + (index < extra) for index in range(parts)]
