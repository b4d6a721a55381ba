"""Prometheus metrics (extra `metrics`).

    metrics.start()                      # counts every event of this process
    await metrics.refresh(mq)            # reads what lies in the queues, from one process only

Names and labels are public: dashboards stand on them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.extras import needs
from penstock.observe.events import Event, Name, Subscription, subscribe

with needs("metrics"):
    from prometheus_client import REGISTRY, CollectorRegistry, Counter, Gauge, Histogram

if TYPE_CHECKING:
    from penstock.models import QueueStatistics

# A handler may be a dictionary look-up or a report of ten minutes.
_BUCKETS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 600)

# event → metric, its explanation, the event's fields that become labels
_COUNTERS: dict[Name, tuple[str, str, tuple[str, ...]]] = {
    Name.MESSAGE_PUBLISHED: ("messages_published", "Messages published", ("topic",)),
    Name.MESSAGE_CLAIMED: ("messages_claimed", "Messages claimed", ("queue",)),
    Name.MESSAGE_ACKED: ("messages_acked", "Messages acked", ("queue",)),
    Name.MESSAGE_FAILED: ("messages_failed", "Attempts that failed", ("queue", "error_kind")),
    Name.MESSAGE_RELEASED: ("messages_released", "Messages given back unattempted", ("queue",)),
    Name.MESSAGE_DEAD_LETTERED: (
        "messages_dead_lettered",
        "Messages that this process gave up",
        ("queue", "error_kind"),
    ),
    Name.CLAIM_EXTENDED: ("claims_extended", "Claims kept alive", ("queue",)),
    Name.CLAIM_LOST: ("claims_lost", "Claims that ended before their work", ("queue",)),
    Name.LISTENER_LOST: ("listener_losses", "LISTEN connections lost", ("error_kind",)),
    Name.CALL_RETRIED: ("calls_retried", "Database calls repeated", ("error_kind",)),
    Name.CALL_FAILED: ("calls_failed", "Database calls given up", ("error_kind",)),
    Name.TASK_ENQUEUED: ("tasks_enqueued", "Tasks enqueued", ("topic",)),
    Name.TASK_DONE: ("tasks_done", "Tasks done", ("topic",)),
    Name.TASK_FAILED: ("tasks_failed", "Attempts at tasks that failed", ("topic", "error_kind")),
    Name.TASK_RELEASED: ("tasks_released", "Tasks given back unattempted", ("topic",)),
    Name.TASK_DEAD_LETTERED: (
        "tasks_dead_lettered",
        "Tasks that this process gave up",
        ("topic", "error_kind"),
    ),
    Name.LEASE_LOST: ("leases_lost", "Leases that ended before their work", ("topic",)),
    Name.SCHEDULE_FIRED: ("schedules_fired", "Schedules fired", ("schedule",)),
}
_RISES = {Name.LISTENER_CONNECTED: "listeners", Name.WORKER_STARTED: "workers"}
_FALLS = {Name.LISTENER_LOST: "listeners", Name.WORKER_STOPPED: "workers"}
_QUEUE_GAUGES = {
    "pending": "Messages unread or scheduled",
    "processing": "Messages claimed",
    "scheduled": "Messages that wait for their time or turn",
    "dead": "Dead letters",
}


class Metrics:
    """The subscriber that counts; one per registry."""

    def __init__(self, registry: CollectorRegistry = REGISTRY) -> None:
        self._counters = {
            name: (Counter(f"penstock_{metric}", text, labels, registry=registry), labels)
            for name, (metric, text, labels) in _COUNTERS.items()
        }
        self._running = {
            "listeners": Gauge("penstock_listeners", "LISTEN connections up", registry=registry),
            "workers": Gauge("penstock_workers", "Workers running", registry=registry),
        }
        self._handling = Histogram(
            "penstock_handler_seconds",
            "Time a handler took, whatever became of it",
            ("queue", "outcome"),
            buckets=_BUCKETS,
            registry=registry,
        )
        self._queues = {
            name: Gauge(f"penstock_queue_{name}", text, ("queue",), registry=registry)
            for name, text in _QUEUE_GAUGES.items()
        }
        self._oldest = Gauge(
            "penstock_queue_oldest_pending_timestamp_seconds",
            "When the oldest pending message was published; absent when there is none",
            ("queue",),
            registry=registry,
        )

    def __call__(self, event: Event) -> None:
        """Count one event."""
        if event.name in self._counters:
            counter, labels = self._counters[event.name]
            counter.labels(*(getattr(event, label) or "" for label in labels)).inc(event.count)
        if event.name in _RISES:
            self._running[_RISES[event.name]].inc()
        if event.name in _FALLS:
            self._running[_FALLS[event.name]].dec()
        if event.seconds is not None and event.name in (Name.MESSAGE_HANDLED, Name.MESSAGE_FAILED):
            outcome = "handled" if event.name is Name.MESSAGE_HANDLED else "failed"
            self._handling.labels(event.queue or "", outcome).observe(event.seconds)

    def note_queue(self, queue: str, statistics: QueueStatistics) -> None:
        """Set the gauges of one queue."""
        for name, gauge in self._queues.items():
            gauge.labels(queue).set(getattr(statistics, f"{name}_count"))
        if statistics.oldest_pending_at is not None:
            self._oldest.labels(queue).set(statistics.oldest_pending_at.timestamp())
        else:
            self._oldest.remove_by_labels({"queue": queue})

    def forget_queues(self) -> None:
        """Drop the gauges of all queues, so that a deleted one does not live on as a line."""
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
