"""From database rows to the models: what each call's answer means.

Calls name their columns, so a row is read by position, and a new column of the engine changes
nothing here.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from penstock.models import (
    BrowsedMessage,
    ClaimedMessage,
    DeadLetter,
    HealthCheck,
    KeyCount,
    LogMessage,
    MessageId,
    MessageState,
    Notify,
    Ordering,
    Outlook,
    QueueId,
    QueueInfo,
    QueueStatistics,
    ReaderId,
    ReaderInfo,
    TopicId,
    TopicInfo,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock.postgres.call import Reader, Row

T = TypeVar("T")


def nothing(_rows: Sequence[Row]) -> None:
    """The answer of a function that returns void."""


def one(read: Callable[[Any], T]) -> Reader[T]:
    """The single value of the single row."""

    def reader(rows: Sequence[Row]) -> T:
        return read(rows[0][0])

    return reader


def optional(read: Callable[[Any], T]) -> Reader[T | None]:
    """The single value of the single row, where null means "no such thing"."""

    def reader(rows: Sequence[Row]) -> T | None:
        value = rows[0][0] if rows else None
        return None if value is None else read(value)

    return reader


def column(read: Callable[[Any], T]) -> Reader[list[T]]:
    """The first value of every row."""

    def reader(rows: Sequence[Row]) -> list[T]:
        return [read(row[0]) for row in rows]

    return reader


def single(read: Callable[[Row], T]) -> Reader[T]:
    """The one row there is."""

    def reader(rows: Sequence[Row]) -> T:
        return read(rows[0])

    return reader


def maybe(read: Callable[[Row], T]) -> Reader[T | None]:
    """The one row, if there is one."""

    def reader(rows: Sequence[Row]) -> T | None:
        return read(rows[0]) if rows else None

    return reader


def many(read: Callable[[Row], T]) -> Reader[list[T]]:
    """Every row."""

    def reader(rows: Sequence[Row]) -> list[T]:
        return [read(row) for row in rows]

    return reader


def same(value: Any) -> Any:
    return value


def message(row: Row) -> ClaimedMessage:
    return ClaimedMessage(MessageId(row[0]), *row[1:])


def topic(row: Row) -> TopicInfo:
    return TopicInfo(TopicId(row[0]), *row[1:])


def queue(row: Row) -> QueueInfo:
    (number, name, of_topic, ordering, notify, exclusive, until, attempts, base, cap, *rest) = row
    created, retention, wanted, paused = rest
    return QueueInfo(
        id=QueueId(number),
        name=name,
        topic=of_topic,
        ordering=Ordering(ordering),
        notify=Notify(notify),
        exclusive=exclusive,
        keep_alive_until=until,
        max_delivery_attempts=attempts,
        retry_base=timedelta(seconds=float(base)),
        retry_cap=timedelta(seconds=float(cap)),
        created_at=created,
        retention=retention,
        filter=wanted,
        paused_at=paused,
    )


def statistics(row: Row) -> QueueStatistics:
    return QueueStatistics(*row)


def dead_letter(row: Row) -> DeadLetter:
    return DeadLetter(MessageId(row[0]), *row[1:])


def browsed(row: Row) -> BrowsedMessage:
    *facts, blocked_by, state, token, until = row[2:]
    facts += [blocked_by, state and MessageState(state), token, until]
    return BrowsedMessage(MessageId(row[0]), MessageState(row[1]), *facts)


def health_check(row: Row) -> HealthCheck:
    return HealthCheck(*row)


def extension(row: Row) -> tuple[MessageId, datetime]:
    return MessageId(row[0]), row[1]


def reader(row: Row) -> ReaderInfo:
    return ReaderInfo(ReaderId(row[0]), *row[1:])


def outlook(row: Row) -> Outlook:
    return Outlook(*row)


def logged(row: Row) -> LogMessage:
    return LogMessage(MessageId(row[0]), *row[1:])


def key_count(row: Row) -> KeyCount:
    return KeyCount(*row)
