"""The values that cross the interface: plain, frozen, and free of any connection."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NewType, Self, TypeAlias

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable
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
    """Where a message is in one queue: always in exactly one of these states."""

    WAITING = "waiting"
    """Due: a claim is all that it lacks."""
    BLOCKED = "blocked"
    """fifo: due, but one ahead of it with the same key is claimed, delayed or retrying."""
    DELAYED = "delayed"
    """Not due yet, and never attempted."""
    RETRYING = "retrying"
    """Not due yet, and attempted before."""
    CLAIMED = "claimed"
    DONE = "done"
    DEAD = "dead"


class Published(int):
    """The id of a message that was published, and whether it was processed where that was awaited.

    With a dedupe key that was seen before, the id is that of the first message.
    """

    processed: bool | None
    """None: the publish did not wait.  True: every queue of the topic was done with it in time."""

    def __new__(cls, number: int, *, processed: bool | None = None) -> Self:
        made = super().__new__(cls, number)
        made.processed = processed
        return made

    @property
    def id(self) -> MessageId:
        return MessageId(int(self))

    def __repr__(self) -> str:
        return f"Published({int(self)}, processed={self.processed})"


class PublishedMany(tuple[MessageId, ...]):  # noqa: SLOT001 - a tuple has room for none
    """The ids of messages that were published together, in the order of their payloads."""

    processed: bool | None
    """None: the publish did not wait.  True: every queue of the topic was done with all of them in
    time."""

    def __new__(cls, ids: Iterable[MessageId], *, processed: bool | None = None) -> Self:
        made = super().__new__(cls, ids)
        made.processed = processed
        return made

    @property
    def ids(self) -> list[MessageId]:
        return list(self)


# A struct and not a dataclass: every message becomes one, and a frozen dataclass takes six times as
# long to make.
class ClaimedMessage(msgspec.Struct, frozen=True):
    """One message as a claim hands it out: a plain record of the row."""

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
    reader_count: int


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
    retention: timedelta | None
    """How long a message may wait in it; None: for ever."""
    filter: dict[str, Json] | None
    paused_at: datetime | None = None
    """Since when it gives out nothing; None: it is not paused."""


@dataclass(frozen=True, slots=True)
class QueueStatistics:
    """What is where in a queue: total = pending + processing + completed, the dead stand apart."""

    pending_count: int
    """Waiting, blocked, delayed or retrying."""
    processing_count: int
    """Claimed."""
    completed_count: int
    """Done, as far as history goes back."""
    total_count: int
    scheduled_count: int
    """Delayed or retrying."""
    dead_count: int
    oldest_pending_at: datetime | None
    """When the oldest pending message was published."""
    waiting_count: int = 0
    blocked_count: int = 0
    delayed_count: int = 0
    retrying_count: int = 0
    oldest_waiting_at: datetime | None = None
    """Since when something is due and not claimed, waiting or blocked."""


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
    priority: int
    correlation_id: str | None
    tenant_id: str | None
    history: list[dict[str, Json]]
    """Its claims and failures, oldest first."""


@dataclass(frozen=True, slots=True)
class BrowsedMessage:
    """One message of a queue, seen without claiming it."""

    id: MessageId
    state: MessageState
    payload: Json
    headers: dict[str, Json] | None
    key: str | None
    priority: int
    attempt: int
    visible_at: datetime | None
    """Since or until when it is due, or when its claim ends."""
    published_at: datetime
    correlation_id: str | None
    tenant_id: str | None
    blocked_by: MessageId | None = None
    """The message ahead of it that holds it up: its state, its token if it is claimed, and until
    when."""
    blocked_by_state: MessageState | None = None
    blocked_by_token: str | None = None
    blocked_until: datetime | None = None


@dataclass(frozen=True, slots=True)
class LogMessage:
    """One message of a topic's log, as a reader sees it."""

    id: MessageId
    payload: Json
    headers: dict[str, Json] | None
    key: str | None
    priority: int
    published_at: datetime
    deliver_after: datetime | None
    expires_at: datetime | None
    correlation_id: str | None
    tenant_id: str | None


@dataclass(frozen=True, slots=True)
class ReaderInfo:
    """One line of the list of readers."""

    id: ReaderId
    name: str
    topic: str
    created_at: datetime
    committed_at: datetime | None
    lag: int
    """Messages not committed yet."""


@dataclass(frozen=True, slots=True)
class Outlook:
    """What an idle consumer has to expect."""

    due_in: timedelta | None
    """Until a claim may find something; 0 or less: something is there.  None: nothing is."""
    oldest_writer: int
    """The lowest number of a transaction that is writing; if none is, of the next that will."""


@dataclass(frozen=True, slots=True)
class KeyCount:
    """How many messages of one key are not done yet."""

    key: str | None
    count: int


@dataclass(frozen=True, slots=True)
class HealthCheck:
    """One line of the engine's view of its own health."""

    name: str
    ok: bool
    detail: str
    advice: str | None


@dataclass(frozen=True, slots=True)
class MaintenanceStep:
    """One duty of `maintain()`, how many things it dealt with, and why it failed if it did."""

    step: str
    affected: int
    error: str | None = None
