"""The values that cross the interface: plain, frozen, and free of any connection."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NewType, TypeAlias

if TYPE_CHECKING:
    from datetime import datetime, timedelta

TopicId = NewType("TopicId", int)
QueueId = NewType("QueueId", int)
ReaderId = NewType("ReaderId", int)
MessageId = NewType("MessageId", int)

# What jsonb holds.  Spelling it out would make every reader of a payload prove its shape twice.
Json: TypeAlias = Any


class Ordering(StrEnum):
    """What a queue promises about the order of its messages."""

    STANDARD = "standard"
    FIFO = "fifo"
    FAIR = "fair"


class Notify(StrEnum):
    """When publishing wakes a queue's consumers."""

    WAITING = "waiting"
    ALWAYS = "always"
    NEVER = "never"


class MessageState(StrEnum):
    """Where a message is in one queue: always in exactly one of these places."""

    UNREAD = "unread"
    SCHEDULED = "scheduled"
    CLAIMED = "claimed"
    DONE = "done"
    DEAD = "dead"


@dataclass(frozen=True, slots=True)
class Message:
    """One message as a claim hands it out."""

    id: MessageId
    payload: Json
    headers: dict[str, Json] | None
    key: str | None
    priority: int
    attempt: int
    """How often it has been claimed, this time included."""
    claimed_until: datetime
    published_at: datetime
    correlation_id: str | None
    tenant_id: str | None


@dataclass(frozen=True, slots=True)
class TopicInfo:
    """One line of the list of topics."""

    id: TopicId
    name: str
    created_at: datetime
    retention: timedelta | None
    queue_count: int


@dataclass(frozen=True, slots=True)
class QueueInfo:
    """One line of the list of queues."""

    id: QueueId
    name: str
    topic: str
    ordering: Ordering
    notify: Notify
    exclusive: bool
    keep_alive_until: datetime | None
    max_delivery_attempts: int
    """0: a message is retried for ever."""
    retry_base: timedelta
    retry_cap: timedelta
    created_at: datetime


@dataclass(frozen=True, slots=True)
class QueueStatistics:
    """What is where in a queue: total = pending + processing + completed, the dead stand apart."""

    pending_count: int
    """Unread or scheduled."""
    processing_count: int
    completed_count: int
    total_count: int
    scheduled_count: int
    dead_count: int
    oldest_pending_at: datetime | None


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A message that used up its attempts."""

    message_id: MessageId
    queue: str
    payload: Json
    headers: dict[str, Json] | None
    key: str | None
    attempts: int
    error: str | None
    published_at: datetime
    died_at: datetime
