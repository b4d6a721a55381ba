"""Calls that look at many things at once, at a cost that does not grow with the backlog."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.client.facts import (
    Activity,
    Consumer,
    FailingStep,
    Found,
    Holder,
    Inspected,
    QueueNow,
    Reader,
    Schedule,
    Segment,
    Step,
    Stream,
)
from penstock.client.values import many, maybe, one, same, to_json
from penstock.postgres.call import Call

if TYPE_CHECKING:
    from datetime import datetime, timedelta

WHOLE = 16_777_216
"""Characters of a payload: more than one can have."""


def clock() -> Call[datetime]:
    return Call("select penstock.clock()", (), one(same))


def queue_overview() -> Call[list[QueueNow]]:
    return Call(
        "select queue_name, topic_name, ordering, paused_at, waiting, scheduled, claimed, dead, "
        "oldest_waiting_at, oldest_claimed_at, "
        "extract(epoch from penstock.clock() - oldest_waiting_at)::float, "
        "blocked, delayed, retrying, oldest_blocked_at, "
        "blocked_by, blocked_by_state, blocked_by_token, blocked_until "
        "from penstock.queue_overview()",
        (),
        many(lambda row: QueueNow(*row)),
    )


def activity(since: str | None) -> Call[list[Activity]]:
    """Give the answer's snapshot back the next time, and nothing is counted twice."""
    return Call(
        "select kind, name, snapshot::text, published, acked, failed, released, expired, dead, "
        "lapsed, waits, works, complete from penstock.activity(%s::text::pg_snapshot)",
        (since,),
        many(lambda row: Activity(*row)),
    )


def queue_history(queue: str, since: timedelta, step: timedelta) -> Call[list[Step]]:
    return Call(
        "select step_at, published, acked, failed, expired, dead, work_p50, work_p95 "
        "from penstock.queue_history(%s, %s, %s)",
        (queue, since, step),
        many(lambda row: Step(*row)),
    )


def list_consumers() -> Call[list[Consumer]]:
    return Call(
        "select queue_name, token, claimed, message_ids, oldest_claimed_at, next_deadline, "
        "waiting_until from penstock.list_consumers()",
        (),
        many(lambda row: Consumer(*row)),
    )


def reader_overview() -> Call[list[Reader]]:
    return Call(
        "select reader_name, topic_name, created_at, committed_at, lag, oldest_at "
        "from penstock.reader_overview()",
        (),
        many(lambda row: Reader(*row)),
    )


def list_streams() -> Call[list[Stream]]:
    return Call(
        "select name, entity, readers, created_at, committed_at from penstock.list_streams()",
        (),
        many(lambda row: Stream(*row)),
    )


def segment_overview() -> Call[list[Segment]]:
    return Call(
        "select kind, number, state, bytes, opened_at, closed_at, held_by "
        "from penstock.segment_overview()",
        (),
        many(lambda row: Segment(*row)),
    )


def horizon_holders() -> Call[list[Holder]]:
    return Call(
        "select kind, name, pid, application, state, since, xmin_age "
        "from penstock.horizon_holders()",
        (),
        many(lambda row: Holder(*row)),
    )


def failing_steps() -> Call[list[FailingStep]]:
    return Call(
        "select step, failing_since, failures, error from penstock.maintenance_steps()"
        " where failing_since is not null",
        (),
        many(lambda row: FailingStep(*row)),
    )


def oldest_transaction() -> Call[float | None]:
    """For how many seconds a transaction has kept vacuum from cleaning up; None: none does."""
    return Call(
        "select max(extract(epoch from clock_timestamp() - since))::float"
        " from penstock.horizon_holders('0')",
        (),
        maybe(lambda row: row[0]),
    )


def list_schedules() -> Call[list[Schedule]]:
    return Call(
        "select schedule_name, topic_name, fires, last_fire_at, usual_gap "
        "from penstock.list_schedules()",
        (),
        many(lambda row: Schedule(*row)),
    )


def find_messages(
    queue: str,
    state: str,
    *,
    after: str = "",
    limit: int,
    key: str | None = None,
    correlation_id: str | None = None,
    headers: dict[str, Any] | None = None,
) -> Call[list[Found]]:
    return Call(
        "select place, message_id, message_key, message_correlation_id, message_headers, priority, "
        "delivery_attempts, published_at, visible_at, token, last_error, "
        "blocked_by, blocked_by_state, blocked_by_token, blocked_until "
        "from penstock.find_messages(%s, %s, %s, %s::int, %s, %s, %s::text::jsonb)",
        (queue, state, after, limit, key, correlation_id, headers and to_json(headers)),
        many(lambda row: Found(*row)),
    )


def inspect_message(
    queue: str, message_id: int, most_characters: int = WHOLE
) -> Call[Inspected | None]:
    return Call(
        "select state, payload, payload_bytes, headers, key, priority, delivery_attempts, "
        "published_at, visible_at, expires_at, correlation_id, tenant_id, token, claimed_at, "
        "last_error, history, blocked_by, blocked_by_state, blocked_by_token, blocked_until "
        "from penstock.inspect_message(%s, %s::bigint, %s::int)",
        (queue, message_id, most_characters),
        maybe(lambda row: Inspected(*row)),
    )
