"""Calls about queues."""

# ruff: noqa: S608 - what is put into the text of a call are column lists of this file

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from penstock.client.values import (
    choice,
    duration,
    exact_seconds,
    given,
    many,
    moment,
    nothing,
    one,
    same,
    single,
    text,
    to_json,
    whole_seconds,
)
from penstock.models import (
    Json,
    KeyCount,
    Notify,
    Ordering,
    QueueId,
    QueueInfo,
    QueueStatistics,
)
from penstock.postgres.call import Call

if TYPE_CHECKING:
    from penstock.postgres.call import Row


_QUEUE = (
    "id, name, topic_name, ordering, notify, exclusive, keep_alive_until, max_delivery_attempts, "
    "retry_base_seconds, retry_cap_seconds, created_at, retention, filter, paused_at"
)
_STATISTICS = (
    "pending_count, processing_count, completed_count, total_count, scheduled_count, dead_count, "
    "oldest_pending_at, waiting_count, blocked_count, delayed_count, retrying_count, "
    "oldest_waiting_at"
)


def create_queue(
    queue: str,
    *,
    topic: str | None = None,
    exclusive: bool | None = None,
    max_delivery_attempts: int | None = None,
    keep_alive: timedelta | None = None,
    ordering: Ordering | str | None = None,
    start_at: datetime | str | None = None,
    retry_base: timedelta | None = None,
    retry_cap: timedelta | None = None,
    retention: timedelta | None = None,
    filter: dict[str, Json] | None = None,  # noqa: A002 - the engine's word for it
    notify: Notify | str | None = None,
) -> Call[QueueId]:
    options, values = given(
        ("topic_name => %s", text("topic", topic)),
        ("exclusive => %s", exclusive),
        ("max_delivery_attempts => %s::int", max_delivery_attempts),
        ("keep_alive_seconds => %s::int", whole_seconds("keep_alive", keep_alive)),
        ("ordering => %s", choice("ordering", Ordering, ordering)),
        ("start_at => %s", _start(start_at)),
        ("retry_base_seconds => %s::numeric", exact_seconds("retry_base", retry_base)),
        ("retry_cap_seconds => %s::numeric", exact_seconds("retry_cap", retry_cap)),
        ("retention => %s::interval", duration("retention", retention)),
        ("filter => %s::text::jsonb", None if filter is None else to_json(filter)),
        ("notify => %s", choice("notify", Notify, notify)),
    )
    return Call(f"select penstock.create_queue(%s{options})", (queue, *values), one(QueueId))


def delete_queue(queue: str) -> Call[None]:
    again: Call[None] = Call(
        "select penstock.delete_queue(name) from penstock.list_queues() where name = %s",
        (queue,),
        nothing,
        lasting=True,
    )
    return Call("select penstock.delete_queue(%s)", (queue,), nothing, lasting=True, again=again)


def list_queues() -> Call[list[QueueInfo]]:
    return Call(f"select {_QUEUE} from penstock.list_queues()", (), many(_queue))


def queue_statistics(queue: str) -> Call[QueueStatistics]:
    return Call(
        f"select {_STATISTICS} from penstock.get_queue_statistics(%s)",
        (queue,),
        single(_statistics),
    )


def extend_keep_alive(queue: str, keep_alive: timedelta) -> Call[datetime]:
    return Call(
        "select penstock.extend_queue_keep_alive(%s, %s::int)",
        (queue, whole_seconds("keep_alive", keep_alive)),
        one(same),
    )


def purge_queue(queue: str) -> Call[int]:
    return Call("select penstock.purge_queue(%s)", (queue,), one(int), lasting=True)


def pause_queue(queue: str) -> Call[datetime]:
    return Call("select penstock.pause_queue(%s)", (queue,), one(same))


def resume_queue(queue: str) -> Call[bool]:
    return Call("select penstock.resume_queue(%s)", (queue,), one(bool))


def key_counts(queue: str, *, limit: int = 100) -> Call[list[KeyCount]]:
    """Messages not done yet, per key, the busiest keys first."""
    return Call(
        "select key, message_count from penstock.key_counts(%s, %s::int)",
        (queue, limit),
        many(_key_count),
    )


def cleanup_queue(queue: str) -> Call[int]:
    """Forget what the queue has completed."""
    return Call("select penstock.cleanup_queue_messages(%s)", (queue,), one(int), lasting=True)


def grant_queue(queue: str, role: str) -> Call[None]:
    return Call("select penstock.grant_queue(%s, %s)", (queue, role), nothing)


def revoke_queue(queue: str, role: str) -> Call[None]:
    return Call("select penstock.revoke_queue(%s, %s)", (queue, role), nothing)


def _start(start_at: datetime | str | None) -> str | None:
    if not isinstance(start_at, datetime):
        return text("start_at", start_at)
    moment("start_at", start_at)
    return start_at.isoformat()


def _queue(row: Row) -> QueueInfo:
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


def _statistics(row: Row) -> QueueStatistics:
    return QueueStatistics(*row)


def _key_count(row: Row) -> KeyCount:
    return KeyCount(*row)
