"""OpenTelemetry traces (extra `tracing`), carried from publisher to consumer in the headers.

    penstock.observe.tracing.start()

Publishing makes a producer span and puts its `traceparent` (W3C) into the headers; handling makes a
consumer span that links to it.  A link and not a parent, unless asked for: a message may wait for
hours, be handled by ten queues and again after a failure, and each of these is a story of its own.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import penstock
from penstock.extras import needs
from penstock.observe import events

with needs("tracing"):
    from opentelemetry import trace
    from opentelemetry.trace import Link, SpanKind, Status, StatusCode
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opentelemetry.context import Context

    from penstock.observe.events import Carried, Headers

_CARRIER = TraceContextTextMapPropagator()
_FIELDS = ("traceparent", "tracestate")


class Tracer:
    """Opens the spans; see `penstock.observe.events.Tracer`."""

    def __init__(self, provider: trace.TracerProvider | None, *, as_child: bool) -> None:
        self._tracer = trace.get_tracer("penstock", penstock.__version__, provider)
        self._as_child = as_child

    @contextmanager
    def publishing(self, topic: str, count: int) -> Iterator[Carried]:
        """A producer span, and the headers that carry it."""
        attributes: dict[str, Any] = _about("send", topic)
        if count != 1:
            attributes["messaging.batch.message_count"] = count
        with self._tracer.start_as_current_span(
            f"send {topic}",
            kind=SpanKind.PRODUCER,
            attributes=attributes,
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            carried: dict[str, str] = {}
            _CARRIER.inject(carried)
            with _failure_noted(span):
                yield carried

    @contextmanager
    def processing(
        self, queue: str, message_id: int, attempt: int, headers: Headers | None
    ) -> Iterator[None]:
        """A consumer span that points to the producer's."""
        origin = _CARRIER.extract(_texts(headers))
        with (
            self._tracer.start_as_current_span(
                f"process {queue}",
                context=self._parent(origin),
                kind=SpanKind.CONSUMER,
                links=_links(origin),
                attributes={
                    **_about("process", queue),
                    "messaging.message.id": str(message_id),
                    "penstock.attempt": attempt,
                },
                record_exception=False,
                set_status_on_exception=False,
            ) as span,
            _failure_noted(span),
        ):
            yield

    def _parent(self, origin: Context) -> Context | None:
        return origin if self._as_child and _links(origin) else None


@contextmanager
def _failure_noted(span: trace.Span) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        # The kind alone: an error's text may quote the payload.
        span.set_attribute("error.type", type(error).__qualname__)
        span.set_status(Status(StatusCode.ERROR))
        raise


def _about(operation: str, destination: str) -> dict[str, str]:
    return {
        "messaging.system": "penstock",
        "messaging.operation.name": operation,
        "messaging.operation.type": operation,
        "messaging.destination.name": destination,
    }


def _texts(headers: Headers | None) -> dict[str, str]:
    # Publishers may put any JSON into headers: what is no text is no trace.
    found = {name: (headers or {}).get(name) for name in _FIELDS}
    return {name: value for name, value in found.items() if isinstance(value, str)}


def _links(origin: Context) -> list[Link]:
    context = trace.get_current_span(origin).get_span_context()
    return [Link(context)] if context.is_valid and context.is_remote else []


def start(provider: trace.TracerProvider | None = None, *, as_child: bool = False) -> None:
    """Trace from now on, with this provider or the process's own.

    `as_child` puts the handling into the publisher's trace instead of linking to it only.
    """
    events.set_tracer(Tracer(provider, as_child=as_child))


def stop() -> None:
    """Trace no longer."""
    events.set_tracer(None)
