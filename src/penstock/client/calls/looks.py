"""Calls that look at many things at once, at a cost that does not grow with the backlog."""

# ruff: noqa: S608 - what is put into the text of a call are column lists of this file

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.client.calls.call import Call
from penstock.client.rows import Row, many, maybe

if TYPE_CHECKING:
    from datetime import datetime

    from penstock.models import Json

COUNTED_UP_TO = 10_000
"""A number above it means "more than this"."""
_OVERVIEW = (
    "queue_name, topic_name, paused_at, waiting, scheduled, claimed, dead, oldest_waiting_at, "
    "extract(epoch from penstock.clock() - oldest_waiting_at)::float"
)
_INSPECTED = (
    "state, payload, payload_bytes, headers, key, priority, delivery_attempts, published_at, "
    "visible_at, expires_at, correlation_id, tenant_id, token, claimed_at, last_error, history"
)
WHOLE = 16_777_216


@dataclass(frozen=True, slots=True)
class QueueAtAGlance:
    """One queue: numbers are counted up to 10,001."""

    queue: str
    topic: str
    paused_at: datetime | None
    waiting: int
    scheduled: int
    claimed: int
    dead: int
    oldest_waiting_at: datetime | None
    oldest_seconds: float | None


@dataclass(frozen=True, slots=True)
class Inspected:
    """All about one message in one queue."""

    state: str | None
    payload: str
    """JSON text, cut where it was asked to be."""
    payload_bytes: int
    headers: dict[str, Json] | None
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
    error: str | None
    history: list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Happened:
    """What became of messages since a snapshot: published to a topic, or finished by a queue."""

    kind: str
    name: str
    snapshot: str
    published: int | None
    acked: int | None
    failed: int | None


@dataclass(frozen=True, slots=True)
class Segment:
    """A piece of the log or of the history."""

    kind: str
    number: int
    state: str
    bytes: int


@dataclass(frozen=True, slots=True)
class ReaderAtAGlance:
    reader: str
    topic: str
    lag: int


def queue_overview() -> Call[list[QueueAtAGlance]]:
    return Call(
        f"select {_OVERVIEW} from penstock.queue_overview()", (), many(_reader(QueueAtAGlance))
    )


def inspect_message(queue: str, message_id: int, *, most: int = WHOLE) -> Call[Inspected | None]:
    return Call(
        f"select {_INSPECTED} from penstock.inspect_message(%s, %s::bigint, %s::int)",
        (queue, message_id, most),
        maybe(_reader(Inspected)),
    )


def activity(since: str | None) -> Call[list[Happened]]:
    """Give the answer's snapshot back the next time, and nothing is counted twice."""
    return Call(
        "select kind, name, snapshot::text, published, acked, failed"
        " from penstock.activity(%s::pg_snapshot)",
        (since,),
        many(_reader(Happened)),
    )


def segments() -> Call[list[Segment]]:
    return Call(
        "select kind, number, state, bytes from penstock.segment_overview()",
        (),
        many(_reader(Segment)),
    )


def readers() -> Call[list[ReaderAtAGlance]]:
    return Call(
        "select reader_name, topic_name, lag from penstock.reader_overview()",
        (),
        many(_reader(ReaderAtAGlance)),
    )


def oldest_transaction() -> Call[float | None]:
    """For how many seconds somebody has kept vacuum from cleaning up; None: nobody does."""
    return Call(
        "select max(extract(epoch from clock_timestamp() - since))::float"
        " from penstock.horizon_holders('0')",
        (),
        maybe(lambda row: row[0]),
    )


def _reader(kind: Any) -> Any:
    def read(row: Row) -> Any:
        return kind(*row)

    return read
