"""Samples of the last minutes, and what they mean: rates, trends, percentiles.  No I/O."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from penstock.client.facts import (
        Activity,
        Consumer,
        FailingStep,
        Holder,
        QueueNow,
        Reader,
    )

KEPT = 300
"""Samples in memory: ten minutes at one every two seconds."""
_RATE_SECONDS = 10.0
_LATENCY_SECONDS = 60.0
_GAP_SECONDS = 30.0
_PRESENT_SECONDS = 30.0
_IDLE: dict[str, Any] = dict.fromkeys(
    ("message_ids", "oldest_claimed_at", "next_deadline", "waiting_until")
)


@dataclass(frozen=True, slots=True)
class Flow:
    """What a queue did in one sample, per second."""

    waiting: int = 0
    blocked: int = 0
    is_known: bool = True
    """False in a first sample: what came and went before it was not counted."""
    came: float = 0.0
    done: float = 0.0
    failed: float = 0.0
    dead: float = 0.0
    waits: tuple[float, ...] = ()
    works: tuple[float, ...] = ()

    @property
    def due(self) -> int:
        """Waiting or blocked: it would be claimed if a worker and its key were free."""
        return self.waiting + self.blocked


@dataclass(frozen=True, slots=True)
class Sample:
    """What one poll of the database found."""

    number: int
    at: datetime
    seconds: float
    """Since the sample before; 0 for the first."""
    queues: dict[str, QueueNow]
    flows: dict[str, Flow]
    topics: dict[str, float]
    """Messages published per second."""
    consumers: list[Consumer] = field(default_factory=list)
    readers: list[Reader] = field(default_factory=list)
    holders: list[Holder] = field(default_factory=list)
    failing: list[FailingStep] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Latency:
    """Seconds that half, 95 % and 99 % of the messages stayed below."""

    p50: float
    p95: float
    p99: float


class Samples:
    """A ring of the newest samples."""

    def __init__(self, kept: int = KEPT) -> None:
        self._ring: deque[Sample] = deque(maxlen=kept)

    def add(self, sample: Sample) -> None:
        self._ring.append(sample)

    @property
    def newest(self) -> Sample | None:
        return self._ring[-1] if self._ring else None

    def flows(self, queue: str) -> list[tuple[datetime, Flow]]:
        """A queue's samples since the last long gap between two samples, oldest first."""
        found = self._all_flows(queue)
        for place in range(len(found) - 1, 0, -1):
            if (found[place][0] - found[place - 1][0]).total_seconds() > _GAP_SECONDS:
                return found[place:]
        return found

    def consumers(self) -> list[Consumer]:
        """Consumers that held or waited for messages in the last half minute.

        A quick worker is between two claims most of the time, and is there all the same.
        """
        found: dict[tuple[str, str], Consumer] = {}
        for each in self._last(_PRESENT_SECONDS):
            gone = {place: replace(who, claimed=0, **_IDLE) for place, who in found.items()}
            found = gone | {(who.queue, who.token): who for who in each.consumers}
        return [found[place] for place in sorted(found)]

    def rate(self, queue: str, what: str) -> float:
        """Messages per second over the last seconds, smoothed."""
        pairs = [
            (getattr(each.flows[queue], what), each.seconds)
            for each in self._last(_RATE_SECONDS)
            if queue in each.flows
        ]
        return _average(pairs)

    def topic_rate(self, topic: str) -> float:
        return _average(
            [(each.topics.get(topic, 0.0), each.seconds) for each in self._last(_RATE_SECONDS)]
        )

    def latency(self, queue: str, what: str) -> Latency | None:
        """Of the samples of the last minute; `what` is waits or works."""
        return percentiles(
            value
            for each in self._last(_LATENCY_SECONDS)
            if queue in each.flows
            for value in getattr(each.flows[queue], what)
        )

    def growth(self, queue: str, seconds: float) -> tuple[int, int] | None:
        """How many were due so long ago and how many are now; None when it is not known."""
        flows = self._all_flows(queue)
        if not flows:
            return None
        now = flows[-1][0]
        for at, flow in flows:
            age = (now - at).total_seconds()
            if age <= seconds:
                # A trend needs at least half of the time.
                return (flow.due, flows[-1][1].due) if age >= seconds / 2 else None
        return None

    def _all_flows(self, queue: str) -> list[tuple[datetime, Flow]]:
        return [(each.at, each.flows[queue]) for each in self._ring if queue in each.flows]

    def _last(self, seconds: float) -> list[Sample]:
        if not self._ring:
            return []
        newest = self._ring[-1].at
        return [each for each in self._ring if (newest - each.at).total_seconds() < seconds]


def flows_of(
    queues: Sequence[QueueNow], activity: Sequence[Activity], seconds: float
) -> tuple[dict[str, Flow], dict[str, float]]:
    """Per queue and per topic, what came and went per second."""
    span = seconds if seconds > 0 else math.inf
    topics = {each.name: (each.published or 0) / span for each in activity if each.kind == "topic"}
    ends = {each.name: each for each in activity if each.kind == "queue"}
    flows = {}
    for queue in queues:
        end = ends.get(queue.name)
        flows[queue.name] = Flow(
            waiting=queue.waiting,
            blocked=queue.blocked,
            is_known=seconds > 0,
            came=topics.get(queue.topic, 0.0),
            done=(end.acked or 0) / span if end else 0.0,
            failed=((end.failed or 0) + (end.expired or 0)) / span if end else 0.0,
            dead=(end.dead or 0) / span if end else 0.0,
            waits=tuple(end.waits or ()) if end else (),
            works=tuple(end.works or ()) if end else (),
        )
    return flows, topics


def percentiles(values: Iterable[float]) -> Latency | None:
    ordered = sorted(values)
    if not ordered:
        return None
    p50, p95, p99 = (ordered[math.ceil(part * len(ordered)) - 1] for part in (0.5, 0.95, 0.99))
    return Latency(p50, p95, p99)


def _average(pairs: list[tuple[float, float]]) -> float:
    span = sum(seconds for _, seconds in pairs)
    return sum(value * seconds for value, seconds in pairs) / span if span else 0.0
