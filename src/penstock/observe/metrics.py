"""Prometheus metrics (extra `metrics`).

    metrics.start()                      # counts every event of this process
    await metrics.refresh(mq)            # reads the counts of the queues, from one process only

Names and labels are public: dashboards stand on them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.extras import needs
from penstock.observe.events import Event, Subscription, subscribe
from penstock.observe.instruments import (
    BUCKETS,
    COUNTERS,
    FALLS,
    HANDLER,
    OLDEST,
    QUEUE_GAUGES,
    RISES,
    RUNNING,
    outcome,
)

with needs("metrics"):
    from prometheus_client import REGISTRY, CollectorRegistry, Counter, Gauge, Histogram

if TYPE_CHECKING:
    from penstock.models import QueueStatistics


class Metrics:
    """The subscriber that counts; one per registry."""

    def __init__(self, registry: CollectorRegistry = REGISTRY) -> None:
        self._counters = {
            name: (Counter(f"penstock_{metric}", text, labels, registry=registry), labels)
            for name, (metric, text, labels) in COUNTERS.items()
        }
        self._running = {
            name: Gauge(f"penstock_{name}", text, registry=registry)
            for name, text in RUNNING.items()
        }
        name, text, labels = HANDLER
        self._handling = Histogram(
            f"penstock_{name}", text, labels, buckets=BUCKETS, registry=registry
        )
        self._queues = {
            name: Gauge(f"penstock_queue_{name}", text, ("queue",), registry=registry)
            for name, text in QUEUE_GAUGES.items()
        }
        self._oldest = Gauge(f"penstock_{OLDEST[0]}", OLDEST[1], ("queue",), registry=registry)

    def __call__(self, event: Event) -> None:
        """Count one event."""
        if event.name in self._counters:
            counter, labels = self._counters[event.name]
            counter.labels(*(getattr(event, label) or "" for label in labels)).inc(event.count)
        if event.name in RISES:
            self._running[RISES[event.name]].inc()
        if event.name in FALLS:
            self._running[FALLS[event.name]].dec()
        became = outcome(event)
        if became is not None and event.seconds is not None:
            self._handling.labels(event.queue or "", became).observe(event.seconds)

    def note_queue(self, queue: str, statistics: QueueStatistics) -> None:
        """Set the gauges of one queue."""
        for name, gauge in self._queues.items():
            gauge.labels(queue).set(getattr(statistics, f"{name}_count"))
        if statistics.oldest_waiting_at is not None:
            self._oldest.labels(queue).set(statistics.oldest_waiting_at.timestamp())
        else:
            self._oldest.remove_by_labels({"queue": queue})

    def forget_queues(self) -> None:
        """Drop the gauges of all queues, so that a deleted one is not shown for ever."""
        for gauge in (*self._queues.values(), self._oldest):
            gauge.clear()


_started: Metrics | None = None


def start(registry: CollectorRegistry = REGISTRY) -> Subscription:
    """Count every event of this process from now on."""
    global _started  # noqa: PLW0603  a registry takes each name once
    if _started is None or registry is not REGISTRY:
        _started = Metrics(registry)
    return subscribe(_started)


async def refresh(client: Any, metrics: Metrics | None = None) -> None:
    """Read every queue's statistics into the gauges; every 15 s from one process is plenty."""
    target = metrics or _started
    if target is None:
        raise RuntimeError("call penstock.observe.metrics.start() first")
    found = [
        (queue.name, await client.queue_statistics(queue.name))
        for queue in await client.list_queues()
    ]
    target.forget_queues()
    for name, statistics in found:
        target.note_queue(name, statistics)
