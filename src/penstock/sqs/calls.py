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
_INVOKE = "select pgqs.invoke_many(%s, array[%s::text::jsonb], array[%s::text::jsonb])::text"
_INVOKE_ON = "select answer from pgqs.invoke_on(%s, %s, %s::text::jsonb, %s::text::jsonb) answer"


def invoke(action: str, ask: Ask) -> Call[bytes]:
    """Carry out an action; a refused one answers {"__error": …}."""
    parameters = action, ask.request.decode(), ask.context.decode()
    return Call(_INVOKE, parameters, lambda rows: _texts(rows)[0], repeat_of(action))


def invoke_on(jobs: Sequence[Job]) -> Call[list[bytes]]:
    """Carry out jobs of one action, one queue and one context together."""
    parameters = tuple(each.decode() for each in parameters_of(jobs))
    return Call(_INVOKE_ON, parameters, _texts, repeat_of(jobs[0].action))


def parameters_of(jobs: Sequence[Job]) -> Parameters:
    """The same, as a pipe takes it."""
    first = jobs[0]
    requests = b",".join([job.ask.request for job in jobs])
    return first.action.encode(), first.queue.encode(), b"[%s]" % requests, first.ask.context


def repeat_of(action: str) -> Repeat:
    return Repeat.BEFORE_SENDING if action in _ONCE else Repeat.ALWAYS


def _texts(rows: Sequence[Sequence[Any]]) -> list[bytes]:
    return [row[0].encode() for row in rows]
