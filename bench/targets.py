"""What Penstock must reach, as ratios within one run, and whether it did."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from bench import figures

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.model import Result


OTHER_FLEETS = ("pgqueuer", "procrastinate", "pg-boss", "graphile-worker")


class Status(Enum):
    REACHED = "reached"
    MISSED = "missed"
    NOT_JUDGED = "not judged"


class Metric(Enum):
    CPU = "CPU"
    WAL = "WAL"
    TIME = "time"

    def of(self, result: Result) -> float | None:
        match self:
            case Metric.CPU:
                return result.cpu_us
            case Metric.WAL:
                return result.wal
            case Metric.TIME:
                return 1e6 / result.rate if result.rate else None


@dataclass(frozen=True, slots=True)
class Verdict:
    title: str
    limit: float
    value: float | None
    status: Status
    detail: str


@dataclass(frozen=True, slots=True)
class Where:
    """A place in the results."""

    scenario: str
    case: str
    contestant: str

    def find(self, results: Sequence[Result]) -> Result | None:
        for result in results:
            found = (result.scenario, result.case.label, result.contestant)
            if found == (self.scenario, self.case, self.contestant) and result.samples:
                return result
        return None


@dataclass(frozen=True, slots=True)
class RatioTarget:
    """A cost in one place, over the lowest of the costs in others."""

    title: str
    metric: Metric
    subject: Where
    references: tuple[Where, ...]
    limit: float

    def judge(self, results: Sequence[Result]) -> Verdict:
        value = self._cost(self.subject, results)
        costs = {where: self._cost(where, results) for where in self.references}
        known = {where: cost for where, cost in costs.items() if cost is not None}
        if value is None or not known:
            return Verdict(self.title, self.limit, None, Status.NOT_JUDGED, "not measured")
        best = min(known, key=known.__getitem__)
        detail = f"{value:,.1f} against {known[best]:,.1f} ({best.contestant}, {best.case})"
        return _verdict(self.title, self.limit, figures.ratio(value, known[best]), detail)

    def _cost(self, where: Where, results: Sequence[Result]) -> float | None:
        result = where.find(results)
        return self.metric.of(result) if result else None


@dataclass(frozen=True, slots=True)
class CourseTarget:
    """CPU per message at the end of a course over that at its start."""

    title: str
    subject: Where
    limit: float
    least_messages: int
    edge: int

    def judge(self, results: Sequence[Result]) -> Verdict:
        result = self.subject.find(results)
        if result is None:
            return Verdict(self.title, self.limit, None, Status.NOT_JUDGED, "not measured")
        course = [sample.cpu_us for sample in result.samples]
        value = figures.end_over_start(course, self.edge)
        detail = f"over {result.messages:,} messages"
        if result.messages < self.least_messages:
            short = f"{detail}; needs {self.least_messages:,}"
            return Verdict(self.title, self.limit, value, Status.NOT_JUDGED, short)
        return _verdict(self.title, self.limit, value, detail)


@dataclass(frozen=True, slots=True)
class LatencyTarget:
    """The median of a latency, over the milliseconds that it may take."""

    title: str
    subject: Where
    milliseconds: float

    def judge(self, results: Sequence[Result]) -> Verdict:
        result = self.subject.find(results)
        latency = result.latency if result else None
        if latency is None:
            return Verdict(self.title, 1.0, None, Status.NOT_JUDGED, "not measured")
        detail = f"{latency.p50:.2f} ms against {self.milliseconds:g} ms"
        return _verdict(self.title, 1.0, latency.p50 / self.milliseconds, detail)


def _verdict(title: str, limit: float, value: float | None, detail: str) -> Verdict:
    if value is None:
        return Verdict(title, limit, None, Status.NOT_JUDGED, detail)
    status = Status.REACHED if value <= limit else Status.MISSED
    return Verdict(title, limit, value, status, detail)


Target = RatioTarget | CourseTarget | LatencyTarget


def against_textbook(case: str, metric: Metric, limit: float) -> RatioTarget:
    """The better form of the textbook queue counts."""
    return RatioTarget(
        f"claim + ack, {case}: {metric.value} against the textbook queue",
        metric,
        Where("claim-ack", case, "penstock"),
        tuple(Where("claim-ack", case, name) for name in ("textbook", "textbook-fn")),
        limit,
    )


def durable_against_textbook(case: str, metric: Metric, limit: float) -> RatioTarget:
    return RatioTarget(
        f"claim + ack, {case}, durable claims: {metric.value} against the textbook queue",
        metric,
        Where("claim-ack", case, "penstock-sync"),
        (Where("claim-ack", case, "textbook-sync"),),
        limit,
    )


def fan_out(batch: str, metric: Metric, limit: float) -> RatioTarget:
    return RatioTarget(
        f"publish, {batch}: {metric.value} with 10 queues against 1",
        metric,
        Where("fan-out", f"{batch}, 10 queues", "penstock"),
        (Where("fan-out", f"{batch}, 1 queue", "penstock"),),
        limit,
    )


def wake_up(case: str, milliseconds: float) -> LatencyTarget:
    return LatencyTarget(
        f"wake-up on an idle queue, {case}: median",
        Where("wakeup", case, "penstock"),
        milliseconds,
    )


def targets(edge: int) -> tuple[Target, ...]:
    return (
        against_textbook("batch 1", Metric.CPU, 1.0),
        durable_against_textbook("batch 1", Metric.CPU, 1.0),
        against_textbook("batch 100", Metric.CPU, 0.4),
        against_textbook("batch 100", Metric.WAL, 0.1),
        fan_out("batch 1", Metric.CPU, 1.1),
        fan_out("batch 1", Metric.WAL, 1.1),
        fan_out("batch 100", Metric.CPU, 1.1),
        CourseTarget(
            "held snapshot: CPU at the end against the start",
            Where("held-snapshot", "batch 10", "penstock"),
            limit=1.1,
            least_messages=200_000,
            edge=edge,
        ),
        CourseTarget(
            "open writer: CPU at the end against the start",
            Where("open-writer", "batch 10", "penstock"),
            limit=1.1,
            least_messages=200_000,
            edge=edge,
        ),
        wake_up("penstock.connect()", 5.0),
        wake_up("penstock.sync.connect()", 5.0),
        RatioTarget(
            "worker, concurrency 50: time per job (µs) against the better library",
            Metric.TIME,
            Where("worker", "concurrency 50", "penstock"),
            tuple(
                Where("worker", "concurrency 50", name) for name in ("procrastinate", "pgqueuer")
            ),
            limit=1 / 3,
        ),
        RatioTarget(
            "16 worker processes of concurrency 4: time per job (µs) against the best other queue",
            Metric.TIME,
            Where("workers", "16 processes", "penstock"),
            tuple(Where("workers", "16 processes", name) for name in OTHER_FLEETS),
            limit=1 / 1.5,
        ),
        LatencyTarget(
            "worker, idle: from commit to handler, median",
            Where("worker", "idle, one message", "penstock"),
            5.0,
        ),
    )


def judge(results: Sequence[Result], edge: int) -> list[Verdict]:
    return [target.judge(results) for target in targets(edge)]
