"""What a run is made of: cases, measurements and results, as plain values."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from bench import figures
from bench.payloads import PAYLOAD_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


@dataclass(frozen=True, slots=True)
class Case:
    """One setting of a scenario, the same for every contestant."""

    label: str
    batch: int = 1
    queues: int = 1
    #: Whether messages are claimed, or only published.
    claims: bool = True
    paced: bool = False
    #: Bytes of JSON in a message, and how many keys the messages of a queue in order have.
    payload: int = PAYLOAD_BYTES
    keys: int = 0
    #: Connections that do the same at once.
    clients: int = 1
    #: Messages that wait behind those that are claimed.
    backlog: int = 0
    #: Where the case stands on the axis of a curve.
    at: int | None = None


@dataclass(frozen=True, slots=True)
class Sample:
    """What one stretch of work cost."""

    messages: int
    seconds: float
    cpu_ns: Mapping[str, int]
    server_cpu_ns: int
    wal_bytes: int
    latencies: Sequence[float] = ()
    yardstick_ns: int = 0

    @property
    def cpu_us(self) -> float:
        """CPU of the contestant's own backends, per message."""
        return sum(self.cpu_ns.values()) / 1000 / self.messages

    @property
    def server_cpu_us(self) -> float:
        """CPU of every server process, vacuum and WAL writer included, per message."""
        return self.server_cpu_ns / 1000 / self.messages

    @property
    def wal(self) -> float:
        return self.wal_bytes / self.messages

    @property
    def rate(self) -> float:
        return self.messages / self.seconds


@dataclass(frozen=True, slots=True)
class Result:
    """A contestant in a case: repeats to take medians of, or a course of consecutive slices."""

    scenario: str
    case: Case
    contestant: str
    samples: Sequence[Sample] = ()
    course: bool = False
    dead_rows: Mapping[str, int] = field(default_factory=dict)
    #: Why it did not take part, or what went wrong when it did.
    skipped: str | None = None
    failed: str | None = None
    note: str | None = None

    @property
    def messages(self) -> int:
        return sum(sample.messages for sample in self.samples)

    @property
    def rate(self) -> float | None:
        """Messages per second: of the whole course, or in the middle one of the repeats."""
        if not self.course or not self.samples:
            return self._typical(lambda sample: sample.rate)
        return self.messages / sum(sample.seconds for sample in self.samples)

    @property
    def cpu_us(self) -> float | None:
        return self._typical(lambda sample: sample.cpu_us)

    @property
    def server_cpu_us(self) -> float | None:
        return self._typical(lambda sample: sample.server_cpu_us)

    @property
    def wal(self) -> float | None:
        return self._typical(lambda sample: sample.wal)

    @property
    def latency(self) -> figures.Percentiles | None:
        return figures.percentiles(value for sample in self.samples for value in sample.latencies)

    def cpu_us_of(self, role: str) -> float | None:
        """CPU per message of one backend: `publish`, `claim`, `ack` …"""
        return figures.middle(
            sample.cpu_ns.get(role, 0) / 1000 / sample.messages for sample in self.samples
        )

    def _typical(self, of: Callable[[Sample], float]) -> float | None:
        return figures.middle(map(of, self.samples))
