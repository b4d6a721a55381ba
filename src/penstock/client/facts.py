"""What a look at the engine finds, as plain values; each is a row of one of its functions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from datetime import datetime, timedelta

COUNTED_TO = 10_000
"""Counts stop here; one more means "more than that"."""


class Blocked(Protocol):
    """Anything that tells what holds it up."""

    @property
    def blocked_by(self) -> int | None: ...
    @property
    def blocked_by_state(self) -> str | None: ...
    @property
    def blocked_by_token(self) -> str | None: ...


def blocker(blocked: Blocked) -> str:
    """What holds it up: "message 7, which is claimed by worker-1"."""
    holder = f" by {blocked.blocked_by_token}" if blocked.blocked_by_token else ""
    return f"message {blocked.blocked_by}, which is {blocked.blocked_by_state}{holder}"


@dataclass(frozen=True, slots=True)
class QueueNow:
    """One line of the overview."""

    name: str
    topic: str
    ordering: str
    paused_at: datetime | None
    waiting: int
    scheduled: int
    claimed: int
    dead: int
    oldest_waiting_at: datetime | None
    oldest_claimed_at: datetime | None
    oldest_seconds: float | None = None
    """For how long the oldest has been due, by the engine's clock."""
    blocked: int = 0
    delayed: int = 0
    retrying: int = 0
    oldest_blocked_at: datetime | None = None
    blocked_by: int | None = None
    """The message that holds up the first blocked one, its state, its token if it is claimed, and
    until when."""
    blocked_by_state: str | None = None
    blocked_by_token: str | None = None
    blocked_until: datetime | None = None


@dataclass(frozen=True, slots=True)
class Activity:
    """What happened to a queue or a topic between two looks."""

    kind: str
    name: str
    snapshot: str
    published: int | None
    acked: int | None
    failed: int | None
    released: int | None
    expired: int | None
    dead: int | None
    lapsed: int | None
    waits: list[float] | None
    works: list[float] | None
    complete: bool


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a queue's history."""

    at: datetime
    published: int
    acked: int
    failed: int
    expired: int
    dead: int
    work_p50: float | None
    work_p95: float | None


@dataclass(frozen=True, slots=True)
class Consumer:
    queue: str
    token: str
    claimed: int
    message_ids: list[int] | None
    oldest_claimed_at: datetime | None
    next_deadline: datetime | None
    waiting_until: datetime | None


@dataclass(frozen=True, slots=True)
class Reader:
    name: str
    topic: str
    created_at: datetime
    committed_at: datetime | None
    lag: int
    oldest_at: datetime | None


@dataclass(frozen=True, slots=True)
class Stream:
    """A Spark stream; its lag is that of its readers."""

    name: str
    entity: str
    readers: list[str]
    created_at: datetime
    committed_at: datetime | None


@dataclass(frozen=True, slots=True)
class Segment:
    kind: str
    number: int
    state: str
    bytes: int
    opened_at: datetime | None
    closed_at: datetime | None
    held_by: list[str]


@dataclass(frozen=True, slots=True)
class Holder:
    """Something that keeps vacuum from cleaning up."""

    kind: str
    name: str
    pid: int | None
    application: str | None
    state: str | None
    since: datetime | None
    xmin_age: int | None


@dataclass(frozen=True, slots=True)
class StepDone:
    """A piece of a step of housekeeping."""

    affected: int
    more: bool
    error: str | None


@dataclass(frozen=True, slots=True)
class FailingStep:
    """A step of housekeeping that fails."""

    step: str
    since: datetime
    failures: int
    error: str


@dataclass(frozen=True, slots=True)
class Schedule:
    name: str
    topic: str
    fires: int
    last_fire_at: datetime
    usual_gap: timedelta | None


@dataclass(frozen=True, slots=True)
class Found:
    """A message in a list; a row without an id only tells where to search on."""

    place: str
    id: int | None
    key: str | None
    correlation_id: str | None
    headers: dict[str, Any] | None
    priority: int | None
    attempts: int | None
    published_at: datetime | None
    visible_at: datetime | None
    token: str | None
    last_error: str | None
    blocked_by: int | None = None
    """The message that holds it up, its state, its token if it is claimed, and until when."""
    blocked_by_state: str | None = None
    blocked_by_token: str | None = None
    blocked_until: datetime | None = None


@dataclass(frozen=True, slots=True)
class Inspected:
    """One message, whole."""

    state: str | None
    payload: str
    payload_bytes: int
    headers: dict[str, Any] | None
    key: str | None
    priority: int
    attempts: int
    published_at: datetime
    visible_at: datetime | None
    expires_at: datetime | None
    correlation_id: str | None
    tenant_id: str | None
    token: str | None
    claimed_at: datetime | None
    last_error: str | None
    history: list[dict[str, Any]]
    blocked_by: int | None = None
    """The message that holds it up, its state, its token if it is claimed, and until when."""
    blocked_by_state: str | None = None
    blocked_by_token: str | None = None
    blocked_until: datetime | None = None


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """One line of the audit."""

    id: int
    at: datetime
    actor: str
    role: str
    action: str
    target: str | None
    detail: dict[str, Any] | None
