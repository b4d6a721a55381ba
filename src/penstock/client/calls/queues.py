"""Calls about queues."""

# ruff: noqa: S608 - what is put into the text of a call are column lists of this file

from __future__ import annotations

from datetime import datetime, timedelta

from penstock.client import rows
from penstock.client.calls.parameters import exact_seconds, given, to_json, whole_seconds
from penstock.client.rows import many, nothing, one, optional, single
from penstock.client.values import choice, duration, moment, text
from penstock.models import (
    Json,
    KeyCount,
    Notify,
    Ordering,
    Outlook,
    QueueId,
    QueueInfo,
    QueueStatistics,
)
from penstock.postgres.call import Call

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
    return Call(f"select {_QUEUE} from penstock.list_queues()", (), many(rows.queue))


def queue_statistics(queue: str) -> Call[QueueStatistics]:
    return Call(
        f"select {_STATISTICS} from penstock.get_queue_statistics(%s)",
        (queue,),
        single(rows.statistics),
    )


def extend_keep_alive(queue: str, keep_alive: timedelta) -> Call[datetime]:
    return Call(
        "select penstock.extend_queue_keep_alive(%s, %s::int)",
        (queue, whole_seconds("keep_alive", keep_alive)),
        one(rows.same),
    )


def purge_queue(queue: str) -> Call[int]:
    return Call("select penstock.purge_queue(%s)", (queue,), one(int), lasting=True)


def pause_queue(queue: str) -> Call[datetime]:
    return Call("select penstock.pause_queue(%s)", (queue,), one(rows.same))


def resume_queue(queue: str) -> Call[bool]:
    return Call("select penstock.resume_queue(%s)", (queue,), one(bool))


def next_visible_time(queue: str) -> Call[datetime | None]:
    return Call("select penstock.get_next_visible_time(%s)", (queue,), optional(rows.same))


def next_visible_in(queue: str) -> Call[timedelta | None]:
    """The same as a duration, so that no client's clock is asked."""
    return Call(
        "select penstock.get_next_visible_time(%s) - penstock.clock()",
        (queue,),
        optional(rows.same),
    )


def outlook(queue: str) -> Call[Outlook]:
    """What an idle consumer decides by; both as of one moment."""
    return Call(
        "select penstock.get_next_visible_time(%s) - penstock.clock(), "
        "pg_snapshot_xmin(pg_current_snapshot())::text::bigint",
        (queue,),
        single(rows.outlook),
    )


def mark() -> Call[int]:
    """The id of a new transaction: every transaction that writes already has a lower one."""
    return Call("select pg_current_xact_id()::text::bigint", (), one(int))


def key_counts(queue: str, *, limit: int = 100) -> Call[list[KeyCount]]:
    """Messages not done yet, per key, the busiest keys first."""
    return Call(
        "select key, message_count from penstock.key_counts(%s, %s::int)",
        (queue, limit),
        many(rows.key_count),
    )


def cleanup_queue(queue: str) -> Call[int]:
    """Forget what the queue has completed."""
    return Call("select penstock.cleanup_queue_messages(%s)", (queue,), one(int), lasting=True)


def channel(queue: str) -> Call[str]:
    return Call("select penstock.queue_channel(%s)", (queue,), one(str))


def start_waiting(queue: str, span: timedelta, token: str | None = None) -> Call[str]:
    """Ask publishers to notify for this long; the answer is the channel.

    The next claim with this token that finds something ends it; without a token, any claim does.
    """
    parameters = (queue, whole_seconds("span", span), token)
    return Call("select penstock.start_waiting(%s, %s::int, %s)", parameters, one(str))


def grant_queue(queue: str, role: str) -> Call[None]:
    return Call("select penstock.grant_queue(%s, %s)", (queue, role), nothing)


def revoke_queue(queue: str, role: str) -> Call[None]:
    return Call("select penstock.revoke_queue(%s, %s)", (queue, role), nothing)


def _start(start_at: datetime | str | None) -> str | None:
    if not isinstance(start_at, datetime):
        return text("start_at", start_at)
    moment("start_at", start_at)
    return start_at.isoformat()
