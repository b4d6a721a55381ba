"""What really happened, written down as it happens; every figure shown comes from here."""

from __future__ import annotations

import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Delivery:
    order: int
    attempt: int
    at: float


@dataclass(frozen=True, slots=True)
class Outcome:
    order: int
    attempt: int
    at: float
    error: str | None = None


class Ledger:
    """Times are this process's monotonic clock at both ends, so no two clocks are ever compared."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.published: dict[int, float] = {}
        self._deliveries: dict[str, list[Delivery]] = defaultdict(list)
        self._done: dict[str, list[Outcome]] = defaultdict(list)
        self._failed: dict[str, list[Outcome]] = defaultdict(list)

    def publishing(self, orders: Iterable[int]) -> None:
        """Noted before the statement is sent: a latency may be overstated, never understated."""
        now = time.monotonic()
        with self._lock:
            self.published.update(dict.fromkeys(orders, now))

    def delivered(self, queue: str, batch: Iterable[tuple[int, int]]) -> None:
        now = time.monotonic()
        with self._lock:
            self._deliveries[queue] += (Delivery(order, attempt, now) for order, attempt in batch)

    def done(self, queue: str, batch: Iterable[tuple[int, int]]) -> None:
        now = time.monotonic()
        with self._lock:
            self._done[queue] += (Outcome(order, attempt, now) for order, attempt in batch)

    def failed(self, queue: str, order: int, attempt: int, error: str) -> None:
        with self._lock:
            self._failed[queue].append(Outcome(order, attempt, time.monotonic(), error))

    def page(self, queue: str) -> Page:
        """A copy of one queue's story so far."""
        with self._lock:
            return Page(
                dict(self.published),
                tuple(self._deliveries[queue]),
                tuple(self._done[queue]),
                tuple(self._failed[queue]),
            )

    def done_count(self, queue: str) -> int:
        with self._lock:
            return len(self._done[queue])

    def failed_count(self, queue: str) -> int:
        with self._lock:
            return len(self._failed[queue])


@dataclass(frozen=True, slots=True)
class Page:
    """One queue's story, and the questions that the summary asks of it."""

    published: dict[int, float]
    deliveries: tuple[Delivery, ...]
    done: tuple[Outcome, ...]
    failed: tuple[Outcome, ...]

    def first_deliveries(self) -> dict[int, Delivery]:
        """Each order's first delivery, in the order in which they came."""
        first: dict[int, Delivery] = {}
        for delivery in self.deliveries:
            first.setdefault(delivery.order, delivery)
        return first

    def retried(self) -> int:
        """Orders that were delivered again after a failure."""
        return len({delivery.order for delivery in self.deliveries if delivery.attempt > 1})

    def done_twice(self) -> list[int]:
        counts = Counter(outcome.order for outcome in self.done)
        return [order for order, count in counts.items() if count > 1]

    def attempts(self, order: int) -> int:
        return sum(1 for delivery in self.deliveries if delivery.order == order)

    def latencies(self, *, without: frozenset[int] = frozenset()) -> list[float]:
        """Seconds from publishing to the first delivery."""
        return [
            delivery.at - self.published[order]
            for order, delivery in self.first_deliveries().items()
            if order not in without
        ]

    def wait(self, order: int) -> float | None:
        delivery = self.first_deliveries().get(order)
        return None if delivery is None else delivery.at - self.published[order]

    def overtaken_by(self, order: int, *, without: frozenset[int] = frozenset()) -> int:
        """How many orders were published before this one and delivered after it."""
        first = list(self.first_deliveries())
        if order not in first:
            return 0
        behind = first[first.index(order) + 1 :]
        return sum(1 for other in behind if other < order and other not in without)

    def rate(self) -> float:
        """Messages done per second, from the first delivery to the last one done."""
        if not self.done:
            return 0.0
        elapsed = self.done[-1].at - self.deliveries[0].at
        return len(self.done) / elapsed if elapsed > 0 else 0.0


def percentile(values: Sequence[float], share: float) -> float | None:
    """The smallest value that at least `share` of the values do not exceed (nearest rank)."""
    if not values:
        return None
    ordered = sorted(values)
    rank = max(1, -(-len(ordered) * round(share * 1000) // 1000))
    return ordered[rank - 1]
