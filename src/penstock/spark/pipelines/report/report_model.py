"""What a report shows: plain figures, however they were computed."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta


@dataclass(frozen=True, slots=True)
class Percentiles:
    """Seconds; None where nothing was measured."""

    p50: float | None = None
    p95: float | None = None
    p99: float | None = None


NOTHING = Percentiles()


@dataclass(frozen=True, slots=True)
class QueueFigures:
    """A queue over the whole period."""

    queue: str
    done: int = 0
    done_at_once: int = 0
    retried: int = 0
    dead: int = 0
    failures: int = 0
    wait: Percentiles = NOTHING
    work: Percentiles = NOTHING
    end_to_end: Percentiles = NOTHING

    @property
    def finished(self) -> int:
        return self.done + self.dead


@dataclass(frozen=True, slots=True)
class Bucket:
    """A queue within one span of time."""

    queue: str
    at: datetime
    done: int = 0
    failures: int = 0
    dead: int = 0
    end_to_end: Percentiles = NOTHING


@dataclass(frozen=True, slots=True)
class Group:
    """A key or a tenant, in one queue."""

    queue: str
    name: str | None
    finished: int
    failures: int
    dead: int
    end_to_end: Percentiles = NOTHING


@dataclass(frozen=True, slots=True)
class Reason:
    """Why attempts failed."""

    queue: str
    error: str
    count: int
    messages: int
    last_at: datetime


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar of a histogram of end-to-end times: [low, high) seconds."""

    queue: str
    low: float
    high: float
    count: int


@dataclass(frozen=True, slots=True)
class Report:
    """Everything on the page."""

    title: str
    made_at: datetime
    since: datetime | None = None
    until: datetime | None = None
    bucket: timedelta = timedelta(hours=1)
    queues: tuple[QueueFigures, ...] = ()
    buckets: tuple[Bucket, ...] = ()
    histogram: tuple[Bar, ...] = ()
    reasons: tuple[Reason, ...] = ()
    keys: tuple[Group, ...] = ()
    tenants: tuple[Group, ...] = ()
    tables: dict[str, str] = field(default_factory=dict)

    @property
    def span(self) -> timedelta:
        if self.since is None or self.until is None:
            return timedelta(0)
        return max(self.until - self.since, timedelta(seconds=1))
