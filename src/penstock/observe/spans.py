"""Where tracing takes hold: the client and the worker open spans here, for any tracer.

Without a tracer each of these is one comparison.  `penstock.observe.tracing` sets one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol

Headers = Mapping[str, Any]
Carried = Mapping[str, str]

_NOTHING: Carried = {}
_NO_PUBLISHING: AbstractContextManager[Carried] = nullcontext(_NOTHING)
_NO_PROCESSING: AbstractContextManager[None] = nullcontext()


class Tracer(Protocol):
    """What a tracing library must be able to do for us."""

    def publishing(self, topic: str, count: int) -> AbstractContextManager[Carried]:
        """Trace a publish; gives the headers that carry the trace to the consumer."""

    def processing(
        self, queue: str, message_id: int, attempt: int, headers: Headers | None
    ) -> AbstractContextManager[None]:
        """Trace the handling of one message."""


_tracer: Tracer | None = None


def set_tracer(tracer: Tracer | None) -> None:
    """Trace with this, or with None no longer."""
    global _tracer  # noqa: PLW0603  one tracer for the process is the point
    _tracer = tracer


def publishing(topic: str, count: int = 1) -> AbstractContextManager[Carried]:
    """Around a publish; what it gives goes into the headers, see `joined`."""
    return _NO_PUBLISHING if _tracer is None else _tracer.publishing(topic, count)


def processing(
    queue: str, message_id: int, attempt: int, headers: Headers | None
) -> AbstractContextManager[None]:
    """Around the handling of a message."""
    if _tracer is None:
        return _NO_PROCESSING
    return _tracer.processing(queue, message_id, attempt, headers)


def joined(headers: Headers | None, carried: Carried) -> Headers | None:
    """The headers with what carries the trace; a header that the caller has set wins."""
    return headers if not carried else {**carried, **(headers or {})}


def joined_each(
    headers: Headers | Sequence[Headers | None] | None, carried: Carried
) -> Headers | Sequence[Headers | None] | None:
    """The same for many messages: one value for all of them, or one for each."""
    if not carried:
        return headers
    if headers is None or isinstance(headers, Mapping):
        return joined(headers, carried)
    return [joined(each, carried) for each in headers]
