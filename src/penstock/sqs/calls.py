"""The SQS door's calls to the database."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.client.calls import Call, Repeat

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.sqs.gather import Ask

# Done twice, these would leave a trace of the first time.
_ONCE = frozenset({"SendMessage", "SendMessageBatch", "StartMessageMoveTask"})


def invoke_many(action: str, asks: Sequence[Ask]) -> Call[list[bytes]]:
    """Carry out one action for each ask; a refused one answers {"__error": …}."""
    return Call(
        "select answer::text from pgqs.invoke_many(%s, %s::jsonb[], %s::jsonb[]) as answer",
        (
            action,
            [ask.request.decode() for ask in asks],
            [ask.context.decode() for ask in asks],
        ),
        _texts,
        Repeat.BEFORE_SENDING if action in _ONCE else Repeat.ALWAYS,
    )


def _texts(rows: Sequence[Sequence[Any]]) -> list[bytes]:
    return [row[0].encode() for row in rows]
