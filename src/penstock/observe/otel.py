"""The same metrics through OpenTelemetry (extra `tracing`).

    otel.start()                         # counts every event of this process

They go where the meter provider sends them: set one up with an OpenTelemetry SDK.  Names and
attributes are those of Prometheus, so dashboards don't care which way a figure came.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.extras import needs
from penstock.observe.events import Event, Subscription, subscribe
from penstock.observe.instruments import COUNTERS, FALLS, HANDLER, RISES, RUNNING, outcome

with needs("tracing"):
    from opentelemetry import metrics

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider


class Instruments:
    """The subscriber that counts."""

    def __init__(self, provider: MeterProvider | None = None) -> None:
        meter = metrics.get_meter("penstock", meter_provider=provider)
        self._counters = {
            name: (meter.create_counter(f"penstock_{metric}", description=text), labels)
            for name, (metric, text, labels) in COUNTERS.items()
        }
        self._running = {
            name: meter.create_up_down_counter(f"penstock_{name}", description=text)
            for name, text in RUNNING.items()
        }
        self._handling = meter.create_histogram(f"penstock_{HANDLER[0]}", description=HANDLER[1])

    def __call__(self, event: Event) -> None:
        """Count one event."""
        if event.name in self._counters:
            counter, labels = self._counters[event.name]
            counter.add(event.count, {label: getattr(event, label) or "" for label in labels})
        if event.name in RISES:
            self._running[RISES[event.name]].add(1)
        if event.name in FALLS:
            self._running[FALLS[event.name]].add(-1)
        became = outcome(event)
        if became is not None and event.seconds is not None:
            self._handling.record(event.seconds, {"queue": event.queue or "", "outcome": became})


def start(provider: MeterProvider | None = None) -> Subscription:
    """Count every event of this process from now on; without a provider, into the global one."""
    return subscribe(Instruments(provider))
