"""The one list of what can happen, shared by logs, metrics and all other subscribers; and spans.

    emit(Event(Name.MESSAGE_ACKED, queue="billing", message_id=7, count=1))

An event says what happened to what, and never carries a payload, a header or an error's text: those
may hold what must not leave the database.

The client and the worker open spans here, for any tracer.  Without a tracer each is one comparison.
`penstock.observe.tracing` sets one.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeAlias

import msgspec

if TYPE_CHECKING:
    from types import TracebackType

_log = logging.getLogger("penstock.observe")


class Name(StrEnum):
    """Every event.  Names are public: dashboards and alerts stand on them."""

    MESSAGE_PUBLISHED = "message.published"
    """`topic`, `count`; `message_id` when it was one."""
    MESSAGE_CLAIMED = "message.claimed"
    """`queue`, `count`: messages were handed to this client."""
    MESSAGE_HANDLED = "message.handled"
    """`queue`, `message_id`, `attempt`, `seconds`: a handler returned."""
    MESSAGE_ACKED = "message.acked"
    """`queue`, `count`; `message_id` when it was one."""
    MESSAGE_FAILED = "message.failed"
    """`queue`, `message_id`, `attempt`, `seconds`, `error_kind`: a handler raised, or a nack."""
    MESSAGE_RELEASED = "message.released"
    """`queue`, `count`: given back without counting the attempt."""
    MESSAGE_DEAD_LETTERED = "message.dead_lettered"
    """`queue`, `message_id`, `attempt`, `error_kind`: buried, or the last attempt failed.

    One whose last claim ended in silence dies when the database notices: no client hears of it.
    """
    CLAIM_EXTENDED = "claim.extended"
    """`queue`, `count`."""
    CLAIM_LOST = "claim.lost"
    """`queue`, `message_id`: its deadline passed, or another consumer finished it."""
    LISTENER_CONNECTED = "listener.connected"
    LISTENER_LOST = "listener.lost"
    """`error_kind`."""
    CALL_RETRIED = "call.retried"
    """`attempt`, `seconds` until it is repeated, `error_kind`."""
    CALL_FAILED = "call.failed"
    """`error_kind`: given up, the caller got the error."""
    WORKER_STARTED = "worker.started"
    WORKER_STOPPING = "worker.stopping"
    WORKER_STOPPED = "worker.stopped"
    TASK_ENQUEUED = "task.enqueued"
    """`topic`, `count`; `task_id` when it was one."""
    TASK_RESERVED = "task.reserved"
    """`count`, `worker`: tasks were leased to this worker."""
    TASK_DONE = "task.done"
    """`topic`, `task_id`, `attempt`, `seconds`: its handler returned, and the ack is stored."""
    TASK_FAILED = "task.failed"
    """`topic`, `task_id`, `attempt`, `seconds`, `error_kind`: it will be tried again."""
    TASK_RELEASED = "task.released"
    """`topic`, `task_id`, `attempt`: given back without holding the attempt against it."""
    TASK_DEAD_LETTERED = "task.dead_lettered"
    """`topic`, `task_id`, `attempt`, `error_kind`."""
    LEASE_LOST = "lease.lost"
    """`topic`, `task_id`, `attempt`: it ended, or the task was cancelled or taken by others."""
    SCHEDULE_FIRED = "schedule.fired"
    """`topic`, `schedule`."""


# A struct and not a dataclass: events are made on the hot path, and a frozen dataclass takes six
# times as long to make.
class Event(msgspec.Struct, frozen=True, omit_defaults=True):
    """Something that happened."""

    name: Name
    queue: str | None = None
    topic: str | None = None
    message_id: int | None = None
    count: int = 1
    attempt: int | None = None
    seconds: float | None = None
    error_kind: str | None = None
    """The name of the error's class."""
    worker: str | None = None
    schedule: str | None = None
    task_id: str | None = None


Subscriber: TypeAlias = Callable[[Event], None]
# Replaced, never changed, so that `emit` needs no lock.
_subscribers: tuple[Subscriber, ...] = ()


class Subscription:
    """Ends with `end()`, or with its `with` block."""

    def __init__(self, subscriber: Subscriber) -> None:
        self._subscriber = subscriber

    def end(self) -> None:
        """Hear no more; ending twice is harmless."""
        global _subscribers  # noqa: PLW0603  one list for the process is the point
        _subscribers = tuple(each for each in _subscribers if each != self._subscriber)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.end()


def subscribe(subscriber: Subscriber) -> Subscription:
    """Call `subscriber` with every event of this process, at once and in the emitter's thread.

    It must be quick and must not block: the emitter waits for it.
    """
    global _subscribers  # noqa: PLW0603
    if subscriber not in _subscribers:
        _subscribers = (*_subscribers, subscriber)
    return Subscription(subscriber)


def has_subscribers() -> bool:
    """Whether there is a subscriber: without one, events of single messages need not be made."""
    return bool(_subscribers)


def emit(event: Event) -> None:
    """Call every subscriber; one that fails is logged and does not affect the others."""
    for subscriber in _subscribers:
        try:
            subscriber(event)
        except Exception:  # noqa: BLE001  whatever it raises, it is not the emitter's
            _log.exception("a subscriber failed on %s", event.name)


# Spans

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
