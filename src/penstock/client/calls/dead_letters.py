"""Calls about dead letters."""

# ruff: noqa: S608 - what is put into the text of a call are column lists of this file

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.client.values import given, listed, many, maybe, one, optional, same
from penstock.models import DeadLetter, MessageId
from penstock.postgres.call import Call, Repeat

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.postgres.call import Row


COLUMNS = (
    "message_id, queue_name, payload, headers, key, delivery_attempts, last_error, published_at, "
    "moved_at, priority, correlation_id, tenant_id, history"
)


def list_dead_letters(queue: str | None = None) -> Call[list[DeadLetter]]:
    return Call(
        f"select {COLUMNS} from penstock.list_dlq_messages(%s)",
        (queue,),
        many(read_dead_letter),
        lasting=True,
    )


def dead_letter(queue: str, message_id: int) -> Call[DeadLetter | None]:
    return Call(
        f"select {COLUMNS} from penstock.list_dlq_messages(%s) where message_id = %s",
        (queue, message_id),
        maybe(read_dead_letter),
    )


def dead_letter_history(queue: str, message_id: int) -> Call[list[dict[str, Any]] | None]:
    return Call(
        "select history from penstock.list_dlq_messages(%s) where message_id = %s",
        (queue, message_id),
        optional(same),
    )


def requeue_dead_letters(queue: str, message_ids: Sequence[int] | None = None) -> Call[int]:
    """Without ids: all of the queue."""
    options, values = given(("message_ids => %s::bigint[]", listed(message_ids)))
    return Call(
        f"select penstock.requeue_dlq_messages(%s{options})",
        (queue, *values),
        one(int),
        repeat=Repeat.BEFORE_SENDING,
        lasting=True,
    )


def purge_dead_letters(
    queue: str | None = None, message_ids: Sequence[int] | None = None
) -> Call[int]:
    """Without a queue: those of all queues."""
    options, values = given(("message_ids => %s::bigint[]", listed(message_ids)))
    return Call(
        f"select penstock.purge_dlq(%s{options})",
        (queue, *values),
        one(int),
        repeat=Repeat.BEFORE_SENDING,
        lasting=True,
    )


def read_dead_letter(row: Row) -> DeadLetter:
    return DeadLetter(MessageId(row[0]), *row[1:])
