"""The SQS door's calls to the database."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.client.calls import Call, Repeat

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.sqs.gather import Ask, Job
    from penstock.sqs.pipe import Parameters

# Done twice, these would leave a trace of the first time.
_ONCE = frozenset({"SendMessage", "SendMessageBatch", "StartMessageMoveTask"})
# One text each: a driver's array of texts would escape and unescape every character twice.
_INVOKE = """\
select answer::text from pgqs.invoke_many(
    %s,
    array(select jsonb_array_elements(%s::text::jsonb)),
    array(select jsonb_array_elements(%s::text::jsonb))
) as answer"""


def invoke_many(action: str, asks: Sequence[Ask]) -> Call[list[bytes]]:
    """Carry out one action for each ask; a refused one answers {"__error": …}."""
    return Call(
        _INVOKE,
        (
            action,
            _array([ask.request for ask in asks]).decode(),
            _array([ask.context for ask in asks]).decode(),
        ),
        _texts,
        repeat_of(action),
    )


def parameters(jobs: Sequence[Job]) -> Parameters:
    """The same, of jobs with one action, as a pipe takes it."""
    return (
        jobs[0].action.encode(),
        _array([job.ask.request for job in jobs]),
        _array([job.ask.context for job in jobs]),
    )


def repeat_of(action: str) -> Repeat:
    return Repeat.BEFORE_SENDING if action in _ONCE else Repeat.ALWAYS


def _array(texts: Sequence[bytes]) -> bytes:
    return b"[%s]" % b",".join(texts)


def _texts(rows: Sequence[Sequence[Any]]) -> list[bytes]:
    return [row[0].encode() for row in rows]
