"""Every operation of the engine as a plain value: SQL text, parameters, and the reader of its rows.

Nothing here touches a connection, so a test can look at a call without a database, and the blocking
and the async client share every line.  An option left at None is not sent: the engine's own default
applies.  Numbers are cast where they are sent, so that one too large is "out of range" and not
"no such function".
"""

# ruff: noqa: S608 - what is put into the text of a call are column lists of this file

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from penstock.client import rows
from penstock.client.rows import (
    BrowsedMessage,
    HealthCheck,
    MaintenanceStep,
    Reader,
    column,
    many,
    maybe,
    nothing,
    one,
    optional,
    single,
)
from penstock.models import (
    DeadLetter,
    Json,
    Message,
    MessageId,
    MessageState,
    Notify,
    Ordering,
    QueueId,
    QueueInfo,
    QueueStatistics,
    TopicId,
    TopicInfo,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

T = TypeVar("T")
Option = tuple[str, object]

_MESSAGE = (
    "message_id, payload, headers, key, priority, delivery_attempts, vt, published_at, "
    "correlation_id, tenant_id"
)
_TOPIC = "id, name, created_at, retention, queue_count"
_QUEUE = (
    "id, name, topic_name, ordering, notify, exclusive, keep_alive_until, max_delivery_attempts, "
    "retry_base_seconds, retry_cap_seconds, created_at"
)
_STATISTICS = (
    "pending_count, processing_count, completed_count, total_count, scheduled_count, dead_count, "
    "oldest_pending_at"
)
_DEAD_LETTER = (
    "message_id, queue_name, payload, headers, key, delivery_attempts, last_error, published_at, "
    "moved_at"
)
_BROWSED = (
    "message_id, state, payload, headers, key, priority, delivery_attempts, visible_at, "
    "published_at"
)


_FROM_NOW = (
    "array(select clock_timestamp() + d from unnest(%s::interval[]) with ordinality u(d, n) "
    "order by n)"
)


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    """What to ask, and how to read the answer."""

    sql: str
    parameters: tuple[object, ...]
    read: Reader[T]


# Topics


def create_topic(topic: str, *, retention: timedelta | None = None) -> Call[TopicId]:
    options, values = _given(("retention => %s::interval", retention))
    return Call(f"select penstock.create_topic(%s{options})", (topic, *values), one(TopicId))


def delete_topic(topic: str) -> Call[None]:
    return Call("select penstock.delete_topic(%s)", (topic,), nothing)


def list_topics() -> Call[list[TopicInfo]]:
    return Call(f"select {_TOPIC} from penstock.list_topics()", (), many(rows.topic))


# Queues


def create_queue(
    queue: str,
    *,
    topic: str | None = None,
    exclusive: bool | None = None,
    max_delivery_attempts: int | None = None,
    keep_alive: timedelta | None = None,
    ordering: Ordering | None = None,
    start_at: datetime | str | None = None,
    retry_base: timedelta | None = None,
    retry_cap: timedelta | None = None,
    retention: timedelta | None = None,
    filter: dict[str, Json] | None = None,  # noqa: A002 - the engine's word for it
    notify: Notify | None = None,
) -> Call[QueueId]:
    options, values = _given(
        ("topic_name => %s", topic),
        ("exclusive => %s", exclusive),
        ("max_delivery_attempts => %s::int", max_delivery_attempts),
        ("keep_alive_seconds => %s::int", _seconds(keep_alive)),
        ("ordering => %s", ordering and ordering.value),
        ("start_at => %s", _start(start_at)),
        ("retry_base_seconds => %s::numeric", _exact_seconds(retry_base)),
        ("retry_cap_seconds => %s::numeric", _exact_seconds(retry_cap)),
        ("retention => %s::interval", retention),
        ("filter => %s::jsonb", None if filter is None else _json(filter)),
        ("notify => %s", notify and notify.value),
    )
    return Call(f"select penstock.create_queue(%s{options})", (queue, *values), one(QueueId))


def delete_queue(queue: str) -> Call[None]:
    return Call("select penstock.delete_queue(%s)", (queue,), nothing)


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
        (queue, _seconds(keep_alive)),
        one(rows.same),
    )


def purge_queue(queue: str) -> Call[int]:
    return Call("select penstock.purge_queue(%s)", (queue,), one(int))


def next_visible_time(queue: str) -> Call[datetime | None]:
    return Call("select penstock.get_next_visible_time(%s)", (queue,), optional(rows.same))


# Publishing


def publish(
    topic: str,
    payload: Json,
    *,
    delay: timedelta | None = None,
    headers: dict[str, Json] | None = None,
    key: str | None = None,
    priority: int | None = None,
    expires_after: timedelta | None = None,
    dedupe_key: str | None = None,
    dedupe_window: timedelta | None = None,
    correlation_id: str | None = None,
    tenant_id: str | None = None,
) -> Call[MessageId]:
    # Durations become times in the database, so that no client's clock is ever asked.
    options, values = _given(
        ("deliver_after => clock_timestamp() + %s::interval", delay),
        ("headers => %s::jsonb", None if headers is None else _json(headers)),
        ("key => %s", key),
        ("priority => %s::int", priority),
        ("expires_at => clock_timestamp() + %s::interval", expires_after),
        ("dedupe_key => %s", dedupe_key),
        ("dedupe_window => %s::interval", dedupe_window),
        ("correlation_id => %s", correlation_id),
        ("tenant_id => %s", tenant_id),
    )
    return Call(
        f"select penstock.publish_message(%s, %s::jsonb{options})",
        (topic, _json(payload), *values),
        one(MessageId),
    )


def publish_many(
    topic: str,
    payloads: Sequence[Json],
    *,
    delays: Sequence[timedelta | None] | None = None,
    headers: Sequence[dict[str, Json] | None] | None = None,
    keys: Sequence[str | None] | None = None,
    priorities: Sequence[int] | None = None,
    expire_after: Sequence[timedelta | None] | None = None,
    dedupe_keys: Sequence[str | None] | None = None,
    dedupe_window: timedelta | None = None,
    correlation_ids: Sequence[str | None] | None = None,
    tenant_ids: Sequence[str | None] | None = None,
) -> Call[list[MessageId]]:
    """One statement for all.  An option has one value for each payload, or a single one for all."""
    options, values = _given(
        (f"deliver_after => {_FROM_NOW}", _list(delays)),
        ("headers => %s::jsonb[]", headers and [None if h is None else _json(h) for h in headers]),
        ("keys => %s::text[]", _list(keys)),
        ("priorities => %s::int[]", _list(priorities)),
        (f"expires_at => {_FROM_NOW}", _list(expire_after)),
        ("dedupe_keys => %s::text[]", _list(dedupe_keys)),
        ("dedupe_window => %s::interval", dedupe_window),
        ("correlation_ids => %s::text[]", _list(correlation_ids)),
        ("tenant_ids => %s::text[]", _list(tenant_ids)),
    )
    return Call(
        f"select penstock.publish_messages(%s, %s::jsonb[]{options})",
        (topic, [_json(payload) for payload in payloads], *values),
        column(MessageId),
    )


# Consuming


def consume(queue: str, token: str, lease: timedelta) -> Call[Message | None]:
    return Call(
        f"select {_MESSAGE} from penstock.consume_message(%s, %s, %s::int)",
        (queue, token, _seconds(lease)),
        maybe(rows.message),
    )


def consume_batch(queue: str, token: str, lease: timedelta, size: int) -> Call[list[Message]]:
    return Call(
        f"select {_MESSAGE} from penstock.consume_messages_batch(%s, %s, %s::int, %s::int)",
        (queue, token, _seconds(lease), size),
        many(rows.message),
    )


def ack(queue: str, message_id: int, token: str) -> Call[bool]:
    return Call(
        "select penstock.ack_message(%s, %s::bigint, %s)", (queue, message_id, token), one(bool)
    )


def ack_many(queue: str, message_ids: Sequence[int], token: str) -> Call[list[MessageId]]:
    """The answer holds the ids that this token still held."""
    return Call(
        "select penstock.ack_messages(%s, %s::bigint[], %s)",
        (queue, list(message_ids), token),
        column(MessageId),
    )


def nack(
    queue: str,
    message_id: int,
    token: str,
    *,
    delay: timedelta | None = None,
    error: str | None = None,
) -> Call[bool]:
    options, values = _given(
        ("delay_seconds => %s::int", _seconds(delay)),
        ("error => %s", error),
    )
    return Call(
        f"select penstock.nack_message(%s, %s::bigint, %s{options})",
        (queue, message_id, token, *values),
        one(bool),
    )


def nack_many(
    queue: str,
    message_ids: Sequence[int],
    token: str,
    *,
    delay: timedelta | None = None,
    error: str | None = None,
) -> Call[list[MessageId]]:
    options, values = _given(
        ("delay_seconds => %s::int", _seconds(delay)),
        ("error => %s", error),
    )
    return Call(
        f"select penstock.nack_messages(%s, %s::bigint[], %s{options})",
        (queue, list(message_ids), token, *values),
        column(MessageId),
    )


def release(queue: str, message_id: int, token: str) -> Call[bool]:
    return Call(
        "select penstock.release_message(%s, %s::bigint, %s)",
        (queue, message_id, token),
        one(bool),
    )


def release_many(queue: str, message_ids: Sequence[int], token: str) -> Call[list[MessageId]]:
    return Call(
        "select penstock.release_messages(%s, %s::bigint[], %s)",
        (queue, list(message_ids), token),
        column(MessageId),
    )


def extend(queue: str, message_id: int, token: str, extension: timedelta) -> Call[datetime | None]:
    """The deadline moves by the extension; None: the claim is lost."""
    return Call(
        "select penstock.extend_message_vt(%s, %s::bigint, %s, %s::int)",
        (queue, message_id, token, _seconds(extension)),
        optional(rows.same),
    )


def extend_many(
    queue: str, message_ids: Sequence[int], token: str, extension: timedelta
) -> Call[list[tuple[MessageId, datetime]]]:
    return Call(
        "select message_id, vt from "
        "penstock.batch_extend_message_vt(%s, %s::bigint[], %s, %s::int)",
        (queue, list(message_ids), token, _seconds(extension)),
        many(rows.extension),
    )


def browse(queue: str, *, after: int = 0, page_size: int = 100) -> Call[list[BrowsedMessage]]:
    return Call(
        f"select {_BROWSED} from penstock.browse_messages(%s, %s::bigint, %s::int)",
        (queue, after, page_size),
        many(rows.browsed),
    )


def message_state(queue: str, message_id: int) -> Call[MessageState | None]:
    """None: the queue has never had it, or its history is gone."""
    return Call(
        "select penstock.message_state(%s, %s::bigint)",
        (queue, message_id),
        optional(MessageState),
    )


# Dead letters


def list_dead_letters(queue: str | None = None) -> Call[list[DeadLetter]]:
    return Call(
        f"select {_DEAD_LETTER} from penstock.list_dlq_messages(%s)",
        (queue,),
        many(rows.dead_letter),
    )


def dead_letter(queue: str, message_id: int) -> Call[DeadLetter | None]:
    return Call(
        f"select {_DEAD_LETTER} from penstock.list_dlq_messages(%s) where message_id = %s",
        (queue, message_id),
        maybe(rows.dead_letter),
    )


def dead_letter_history(queue: str, message_id: int) -> Call[list[dict[str, Any]] | None]:
    return Call(
        "select history from penstock.list_dlq_messages(%s) where message_id = %s",
        (queue, message_id),
        optional(rows.same),
    )


def requeue_dead_letters(queue: str, message_ids: Sequence[int] | None = None) -> Call[int]:
    """Without ids: all of the queue."""
    options, values = _given(("message_ids => %s::bigint[]", _list(message_ids)))
    return Call(f"select penstock.requeue_dlq_messages(%s{options})", (queue, *values), one(int))


def purge_dead_letters(
    queue: str | None = None, message_ids: Sequence[int] | None = None
) -> Call[int]:
    """Without a queue: those of all queues."""
    options, values = _given(("message_ids => %s::bigint[]", _list(message_ids)))
    return Call(f"select penstock.purge_dlq(%s{options})", (queue, *values), one(int))


# Housekeeping


def maintain() -> Call[list[MaintenanceStep]]:
    return Call("select step, affected from penstock.maintain()", (), many(rows.maintenance_step))


def health() -> Call[list[HealthCheck]]:
    return Call(
        "select name, ok, detail, advice from penstock.health()", (), many(rows.health_check)
    )


def _given(*options: Option) -> tuple[str, tuple[object, ...]]:
    """The named arguments that have a value, ready to follow the positional ones."""
    present = [(text, value) for text, value in options if value is not None]
    return "".join(f", {text}" for text, _ in present), tuple(value for _, value in present)


def _json(value: Json) -> str:
    return json.dumps(value, allow_nan=False, separators=(",", ":"))


def _seconds(span: timedelta | None) -> int | None:
    # Rounded up: a lease or a delay may last a little longer, never shorter than was asked for.
    return None if span is None else math.ceil(span.total_seconds())


def _exact_seconds(span: timedelta | None) -> float | None:
    return None if span is None else span.total_seconds()


def _list(values: Sequence[T] | None) -> list[T] | None:
    return None if values is None else list(values)


def _start(start_at: datetime | str | None) -> str | None:
    return start_at.isoformat() if isinstance(start_at, datetime) else start_at
