"""What several tests of observing need."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from penstock.observe import tracing

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def exporter() -> Iterator[InMemorySpanExporter]:
    """Where the spans of a test end up."""
    found = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(found))
    tracing.start(provider)
    yield found
    tracing.stop()
    provider.shutdown()
