"""Everything at once, on a real message: events, metrics and traces tell one story."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry

import penstock
from penstock.observe import metrics
from penstock.testing import drain

if TYPE_CHECKING:
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    from tests.fixtures.databases import Database

SECRET = "card-4111"


async def test_a_message_can_be_followed_from_publisher_to_handler(
    database: Database, exporter: InMemorySpanExporter
) -> None:
    registry = CollectorRegistry()
    async with penstock.connect(database.dsn) as mq:
        worker = penstock.Worker(mq)

        @worker.handler("billing")
        async def bill(message: penstock.Message[Any]) -> None:
            if message.payload["fails"]:
                raise ValueError(SECRET)

        await mq.create_queue("billing")
        with metrics.start(registry):
            await mq.publish("billing", {"fails": False, "card": SECRET}, headers={"region": "eu"})
            await mq.publish_many("billing", [{"fails": True}])
            await drain(worker)
    spans = exporter.get_finished_spans()
    sent = {span.context.span_id for span in spans if span.name == "send billing"}
    processed = [span for span in spans if span.name == "process billing"]
    assert len(sent) == len(processed) == 2
    assert {link.context.span_id for span in processed for link in span.links} == sent
    assert SECRET not in "".join(span.to_json() for span in spans)
    value = registry.get_sample_value
    assert value("penstock_messages_published_total", {"topic": "billing"}) == 2
    assert value("penstock_messages_acked_total", {"queue": "billing"}) == 1
    failed = {"queue": "billing", "error_kind": "ValueError"}
    assert value("penstock_messages_failed_total", failed) == 1
