"""Traces: a message's handling can be followed back to whoever published it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.trace import SpanKind, StatusCode

from penstock.observe import events, tracing

if TYPE_CHECKING:
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter


def test_handling_links_to_publishing(exporter: InMemorySpanExporter) -> None:
    with events.publishing("orders") as carried:
        headers = events.joined({"region": "eu"}, carried)
    assert headers is not None
    assert headers["region"] == "eu"
    with events.processing("billing", 7, 2, headers):
        pass
    sent, processed = exporter.get_finished_spans()
    assert (sent.name, sent.kind) == ("send orders", SpanKind.PRODUCER)
    assert (processed.name, processed.kind) == ("process billing", SpanKind.CONSUMER)
    assert [link.context.span_id for link in processed.links] == [sent.context.span_id]
    assert processed.context.trace_id != sent.context.trace_id
    assert processed.attributes is not None
    assert processed.attributes["messaging.message.id"] == "7"
    assert processed.attributes["penstock.attempt"] == 2


def test_handling_can_be_made_part_of_the_publisher_s_trace(
    exporter: InMemorySpanExporter,
) -> None:
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracing.start(provider, as_child=True)
    with events.publishing("orders") as carried:
        pass
    with events.processing("billing", 7, 1, carried):
        pass
    sent, processed = exporter.get_finished_spans()
    assert processed.parent is not None
    assert processed.parent.span_id == sent.context.span_id


def test_a_failure_is_noted_by_its_kind_and_never_its_text(exporter: InMemorySpanExporter) -> None:
    with pytest.raises(ValueError, match="card"), events.processing("billing", 7, 1, None):
        raise ValueError("card 4111 refused")
    (span,) = exporter.get_finished_spans()
    assert span.status.status_code is StatusCode.ERROR
    assert span.attributes is not None
    assert span.attributes["error.type"] == "ValueError"
    assert "4111" not in span.to_json()


@pytest.mark.parametrize("headers", [None, {}, {"traceparent": 7}, {"traceparent": "nonsense"}])
def test_a_message_without_a_trace_begins_one(
    exporter: InMemorySpanExporter, headers: dict[str, object] | None
) -> None:
    with events.processing("billing", 7, 1, headers):
        pass
    (span,) = exporter.get_finished_spans()
    assert span.parent is None
    assert not span.links


def test_many_messages_share_one_publishing_span(exporter: InMemorySpanExporter) -> None:
    with events.publishing("orders", 2) as carried:
        each = events.joined_each([{"n": 1}, None], carried)
        assert events.joined_each(None, carried) == carried
    assert each == [{**carried, "n": 1}, carried]
    (span,) = exporter.get_finished_spans()
    assert span.attributes is not None
    assert span.attributes["messaging.batch.message_count"] == 2


def test_a_header_of_the_caller_wins() -> None:
    assert events.joined({"traceparent": "mine"}, {"traceparent": "ours"}) == {
        "traceparent": "mine"
    }


def test_without_a_tracer_headers_stay_as_they_are() -> None:
    with events.publishing("orders") as carried:
        assert events.joined(None, carried) is None
        assert events.joined_each([None], carried) == [None]
    with events.processing("billing", 7, 1, None):
        pass
