"""Calls that move messages: from topic to topic, out of a database and into it."""

# ruff: noqa: S608 - what is put into the text of a call are column lists of this file

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.client.calls.dead_letters import COLUMNS as DEAD_LETTER
from penstock.client.calls.dead_letters import read_dead_letter
from penstock.client.calls.readers import logged
from penstock.client.values import given, listed, many, nothing, one
from penstock.postgres.call import Call, Repeat

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.models import DeadLetter, LogMessage

_LOG = (
    "message_id, payload, headers, key, priority, published_at, deliver_after, expires_at, "
    "correlation_id, tenant_id"
)


@dataclass(frozen=True, slots=True)
class Placed:
    """A dead letter and its place among all of them, from where the next page begins."""

    place: int
    letter: DeadLetter


def move_messages(queue: str, topic: str, *, most: int) -> Call[int]:
    """What waits in a queue, to another topic; the answer is how many went."""
    return Call(
        "select penstock.move_messages(%s, %s, %s::int)",
        (queue, topic, most),
        one(int),
        repeat=Repeat.BEFORE_SENDING,
    )


def move_dead_letters(
    queue: str, topic: str, message_ids: Sequence[int] | None = None, *, most: int
) -> Call[int]:
    options, values = given(("message_ids => %s::bigint[]", listed(message_ids)))
    return Call(
        f"select penstock.move_dlq_messages(%s, %s, most => %s::int{options})",
        (queue, topic, most, *values),
        one(int),
        repeat=Repeat.BEFORE_SENDING,
    )


def browse_topic(topic: str, *, after: int, page_size: int) -> Call[list[LogMessage]]:
    return Call(
        f"select {_LOG} from penstock.browse_topic(%s, %s::bigint, %s::int)",
        (topic, after, page_size),
        many(logged),
    )


def dead_letter_page(queue: str | None, *, after: int, page_size: int) -> Call[list[Placed]]:
    return Call(
        f"select id, {DEAD_LETTER} from penstock.list_dlq_messages(%s, %s::bigint, %s::int)",
        (queue, after, page_size),
        many(lambda row: Placed(row[0], read_dead_letter(row[1:]))),
    )


def import_progress(source: str, topic: str) -> Call[int]:
    return Call("select penstock.import_progress(%s, %s)", (source, topic), one(int))


def note_import(source: str, topic: str, before: int, done: int) -> Call[None]:
    """To be called in the transaction that publishes these rows."""
    return Call(
        "select penstock.note_import(%s, %s, %s::bigint, %s::bigint)",
        (source, topic, before, done),
        nothing,
    )
