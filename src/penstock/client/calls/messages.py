"""Calls about messages that are in a queue: claim them, say how they went, look at them."""

# ruff: noqa: S608 - what is put into the text of a call are column lists of this file

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from penstock.client.values import (
    column,
    given,
    many,
    maybe,
    one,
    optional,
    reason,
    same,
    single,
    whole_seconds,
)
from penstock.models import BrowsedMessage, ClaimedMessage, MessageId, MessageState, Outlook
from penstock.postgres.call import Call

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime, timedelta

    from penstock.postgres.call import Row

_MESSAGE = (
    "message_id, payload, headers, key, priority, delivery_attempts, vt, published_at, "
    "correlation_id, tenant_id"
)
_BROWSED = (
    "message_id, state, payload, headers, key, priority, delivery_attempts, visible_at, "
    "published_at, correlation_id, tenant_id, "
    "blocked_by, blocked_by_state, blocked_by_token, blocked_until"
)


class Busy(list[ClaimedMessage]):
    """No messages, because another claim held the queue: it need not be empty."""


class Claimed(NamedTuple):
    """What a claim brought."""

    messages: list[ClaimedMessage]
    suspects: list[MessageId]
    """Those whose attempt was deferred: a consumer may have died of one before."""


def consume(queue: str, token: str, claim_for: timedelta) -> Call[ClaimedMessage | None]:
    return Call(
        f"select {_MESSAGE} from penstock.consume_message(%s, %s, %s::int)",
        (queue, token, whole_seconds("claim_for", claim_for)),
        maybe(_message),
    )


def consume_batch(
    queue: str, token: str, claim_for: timedelta, size: int
) -> Call[list[ClaimedMessage]]:
    return Call(
        f"select {_MESSAGE} from penstock.consume_messages_batch(%s, %s, %s::int, %s::int)",
        (queue, token, whole_seconds("claim_for", claim_for), size),
        many(_message),
        busy=Busy(),
    )


def consume_deferring(queue: str, token: str, claim_for: timedelta, size: int) -> Call[Claimed]:
    """As `consume_batch`; the attempts of suspects count from `begin_attempt` on."""
    # The subquery runs once, and not before the claim: PostgreSQL runs it when a row first asks for
    # its result.
    return Call(
        f"select {_MESSAGE}, case when delivery_attempts > 1 "
        "then message_id = any (array(select penstock.defer_suspects(%s, %s))) else false end "
        "from penstock.consume_messages_batch(%s, %s, %s::int, %s::int)",
        (queue, token, queue, token, whole_seconds("claim_for", claim_for), size),
        _claimed,
        busy=Claimed(Busy(), []),
    )


def _claimed(found: Sequence[Row]) -> Claimed:
    messages = [_message(row[:-1]) for row in found]
    return Claimed(messages, [MessageId(row[0]) for row in found if row[-1]])


def begin_attempt(queue: str, message_id: int, token: str) -> Call[bool]:
    return Call(
        "select penstock.begin_attempt(%s, %s::bigint, %s)", (queue, message_id, token), one(bool)
    )


def ack_and_claim(
    queue: str, message_ids: Sequence[int], token: str, claim_for: timedelta, size: int
) -> Call[tuple[list[MessageId], list[ClaimedMessage]]]:
    """The ids that the token still held, and the messages that it has claimed."""
    ids = list(message_ids)
    sql = (
        f"select acked_id, {_MESSAGE} "
        "from penstock.ack_and_consume_batch(%s, %s, %s::bigint[], %s::int, %s::int)"
    )
    values = (queue, token, ids, whole_seconds("claim_for", claim_for), size)
    # As in ack_many: after a lost answer the messages may be done already.
    again = (
        f"{sql} union all select i.id{', null' * _MESSAGE.count(',')}, null "
        "from unnest(%s::bigint[]) i(id) where penstock.message_state(%s, i.id) = 'done'"
    )
    return Call(
        sql,
        values,
        _acked_and_claimed,
        again=Call(again, (*values, ids, queue), _acked_and_claimed),
    )


def _acked_and_claimed(
    found: Sequence[Row],
) -> tuple[list[MessageId], list[ClaimedMessage]]:
    acked = dict.fromkeys(MessageId(row[0]) for row in found if row[0] is not None)
    return list(acked), [_message(row[1:]) for row in found if row[0] is None]


def ack(queue: str, message_id: int, token: str) -> Call[bool]:
    sql = "select penstock.ack_message(%s, %s::bigint, %s)"
    # An ack whose answer was lost may have been done: then the token holds nothing any more.
    again = f"{sql} or coalesce(penstock.message_state(%s, %s::bigint) = 'done', false)"
    values = (queue, message_id, token)
    return Call(sql, values, one(bool), again=Call(again, (*values, queue, message_id), one(bool)))


def ack_many(queue: str, message_ids: Sequence[int], token: str) -> Call[list[MessageId]]:
    """The answer holds the ids that this token still held."""
    ids = list(message_ids)
    again = (
        "select a.id from penstock.ack_messages(%s, %s::bigint[], %s) a(id) union "
        "select i.id from unnest(%s::bigint[]) i(id) "
        "where penstock.message_state(%s, i.id) = 'done'"
    )
    return Call(
        "select penstock.ack_messages(%s, %s::bigint[], %s)",
        (queue, ids, token),
        column(MessageId),
        again=Call(again, (queue, ids, token, ids, queue), column(MessageId)),
    )


def nack(
    queue: str,
    message_id: int,
    token: str,
    *,
    delay: timedelta | None = None,
    error: str | BaseException | None = None,
) -> Call[bool | None]:
    """Whether the message died of it; None: the claim is lost."""
    several = nack_many(queue, [message_id], token, delay=delay, error=error)
    return Call(several.sql, several.parameters, _only_death)


def nack_many(
    queue: str,
    message_ids: Sequence[int],
    token: str,
    *,
    delay: timedelta | None = None,
    error: str | BaseException | None = None,
) -> Call[dict[MessageId, bool]]:
    """The answer holds the ids that this token still held, and whether each died of it."""
    options, values = given(
        ("delay_seconds => %s::int", whole_seconds("delay", delay)),
        ("error => %s", reason(error)),
    )
    return Call(
        f"select message_id, dead from penstock.fail_messages(%s, %s::bigint[], %s{options})",
        (queue, list(message_ids), token, *values),
        _deaths,
    )


def _deaths(found: Sequence[Row]) -> dict[MessageId, bool]:
    return {MessageId(message_id): dead for message_id, dead in found}


def _only_death(found: Sequence[Row]) -> bool | None:
    return found[0][1] if found else None


def bury(
    queue: str, message_id: int, token: str, *, error: str | BaseException | None = None
) -> Call[bool]:
    """To the dead letters at once: trying again is of no use."""
    options, values = given(("error => %s", reason(error)))
    return Call(
        f"select penstock.bury_message(%s, %s::bigint, %s{options})",
        (queue, message_id, token, *values),
        one(bool),
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
        (queue, message_id, token, whole_seconds("extension", extension)),
        optional(same),
    )


def extend_many(
    queue: str, message_ids: Sequence[int], token: str, extension: timedelta
) -> Call[list[tuple[MessageId, datetime]]]:
    return Call(
        "select message_id, vt from "
        "penstock.batch_extend_message_vt(%s, %s::bigint[], %s, %s::int)",
        (queue, list(message_ids), token, whole_seconds("extension", extension)),
        many(_extension),
    )


def browse(queue: str, *, after: int = 0, page_size: int = 100) -> Call[list[BrowsedMessage]]:
    return Call(
        f"select {_BROWSED} from penstock.browse_messages(%s, %s::bigint, %s::int)",
        (queue, after, page_size),
        many(_browsed),
    )


def message_state(queue: str, message_id: int) -> Call[MessageState | None]:
    """None: the queue has never had it, or its history is gone."""
    return Call(
        "select penstock.message_state(%s, %s::bigint)",
        (queue, message_id),
        optional(MessageState),
    )


def all_done(topic: str, message_ids: Sequence[int]) -> Call[bool]:
    """Is none of these messages waiting, claimed or dead in any queue of the topic?

    A queue that has no trace of a message never had it, for its filter, or was done with it long
    ago: neither is worth waiting for.
    """
    return Call(
        "select coalesce(bool_and(coalesce(penstock.message_state(q.name, m.id), 'done') = 'done'),"
        " true) from penstock.list_queues() q, unnest(%s::bigint[]) m(id) where q.topic_name = %s"
        " and (q.keep_alive_until is null or q.keep_alive_until > penstock.clock())",
        (list(message_ids), topic),
        one(bool),
    )


# Waiting for messages


def next_visible_time(queue: str) -> Call[datetime | None]:
    return Call("select penstock.get_next_visible_time(%s)", (queue,), optional(same))


def next_visible_in(queue: str) -> Call[timedelta | None]:
    """The same as a duration, so that no client's clock is asked."""
    return Call(
        "select penstock.get_next_visible_time(%s) - penstock.clock()",
        (queue,),
        optional(same),
    )


def outlook(queue: str) -> Call[Outlook]:
    """What an idle consumer decides by; both as of one moment."""
    return Call(
        "select penstock.get_next_visible_time(%s) - penstock.clock(), "
        "pg_snapshot_xmin(pg_current_snapshot())::text::bigint",
        (queue,),
        single(lambda row: Outlook(*row)),
    )


def mark() -> Call[int]:
    """The id of a new transaction: every transaction that writes already has a lower one."""
    return Call("select pg_current_xact_id()::text::bigint", (), one(int))


def channel(queue: str) -> Call[str]:
    return Call("select penstock.queue_channel(%s)", (queue,), one(str))


def start_waiting(queue: str, span: timedelta, token: str | None = None) -> Call[str]:
    """Ask publishers to notify for this long; the answer is the channel.

    The next claim with this token that finds something ends it; without a token, any claim does.
    """
    parameters = (queue, whole_seconds("span", span), token)
    return Call("select penstock.start_waiting(%s, %s::int, %s)", parameters, one(str))


# Reading rows


def _message(row: Row) -> ClaimedMessage:
    return ClaimedMessage(MessageId(row[0]), *row[1:])


def _extension(row: Row) -> tuple[MessageId, datetime]:
    return MessageId(row[0]), row[1]


def _browsed(row: Row) -> BrowsedMessage:
    *facts, blocked_by, state, token, until = row[2:]
    facts += [blocked_by, state and MessageState(state), token, until]
    return BrowsedMessage(MessageId(row[0]), MessageState(row[1]), *facts)
