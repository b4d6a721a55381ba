"""Metrics: stable names, right numbers."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from penstock.models import QueueStatistics
from penstock.observe import Event, Name, emit, metrics

NAMES = {
    "penstock_calls_failed",
    "penstock_calls_retried",
    "penstock_claims_extended",
    "penstock_claims_lost",
    "penstock_handler_seconds",
    "penstock_leases_lost",
    "penstock_listener_losses",
    "penstock_listeners",
    "penstock_messages_acked",
    "penstock_messages_claimed",
    "penstock_messages_dead_lettered",
    "penstock_messages_failed",
    "penstock_messages_published",
    "penstock_messages_released",
    "penstock_queue_blocked",
    "penstock_queue_dead",
    "penstock_queue_delayed",
    "penstock_queue_oldest_pending_timestamp_seconds",
    "penstock_queue_pending",
    "penstock_queue_processing",
    "penstock_queue_retrying",
    "penstock_queue_scheduled",
    "penstock_queue_waiting",
    "penstock_schedules_fired",
    "penstock_tasks_dead_lettered",
    "penstock_tasks_done",
    "penstock_tasks_enqueued",
    "penstock_tasks_failed",
    "penstock_tasks_released",
    "penstock_workers",
}


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


def test_names_are_those_that_dashboards_know(registry: CollectorRegistry) -> None:
    metrics.Metrics(registry)
    assert {metric.name for metric in registry.collect()} == NAMES


def test_events_are_counted_by_queue_and_kind(registry: CollectorRegistry) -> None:
    with metrics.start(registry):
        emit(Event(Name.MESSAGE_PUBLISHED, topic="orders", count=100))
        emit(Event(Name.MESSAGE_CLAIMED, queue="billing", count=10))
        emit(Event(Name.MESSAGE_FAILED, queue="billing", error_kind="ValueError", seconds=0.2))
        emit(Event(Name.MESSAGE_HANDLED, queue="billing", seconds=0.1))
        emit(Event(Name.MESSAGE_HANDLED, queue="billing", seconds=0.3))
    value = registry.get_sample_value
    assert value("penstock_messages_published_total", {"topic": "orders"}) == 100
    assert value("penstock_messages_claimed_total", {"queue": "billing"}) == 10
    failed = {"queue": "billing", "error_kind": "ValueError"}
    assert value("penstock_messages_failed_total", failed) == 1
    handled = {"queue": "billing", "outcome": "handled"}
    assert value("penstock_handler_seconds_count", handled) == 2
    assert value("penstock_handler_seconds_sum", handled) == pytest.approx(0.4)


def test_what_runs_goes_up_and_down(registry: CollectorRegistry) -> None:
    with metrics.start(registry):
        for name in (Name.WORKER_STARTED, Name.WORKER_STARTED, Name.WORKER_STOPPED):
            emit(Event(name))
    assert registry.get_sample_value("penstock_workers") == 1


@dataclass
class Queue:
    name: str


class OfflineClient:
    """Answers as a client does, without a database."""

    def __init__(self, **queues: QueueStatistics) -> None:
        self.queues = queues

    async def list_queues(self) -> list[Queue]:
        return [Queue(name) for name in self.queues]

    async def queue_statistics(self, queue: str) -> QueueStatistics:
        return self.queues[queue]


async def test_queues_are_read_into_gauges_and_deleted_ones_vanish(
    registry: CollectorRegistry,
) -> None:
    oldest = datetime(2026, 3, 1, tzinfo=UTC)
    counting = metrics.Metrics(registry)
    published = datetime(2026, 2, 1, tzinfo=UTC)
    busy = QueueStatistics(5, 2, 9, 16, 3, 1, published, 1, 1, 2, 1, oldest)
    idle = QueueStatistics(0, 0, 9, 9, 0, 0, None)
    await metrics.refresh(OfflineClient(billing=busy, mail=idle), counting)
    value = registry.get_sample_value
    assert value("penstock_queue_pending", {"queue": "billing"}) == 5
    assert value("penstock_queue_dead", {"queue": "billing"}) == 1
    assert value("penstock_queue_blocked", {"queue": "billing"}) == 1
    age = "penstock_queue_oldest_pending_timestamp_seconds"
    assert value(age, {"queue": "billing"}) == oldest.timestamp()
    assert value(age, {"queue": "mail"}) is None
    await metrics.refresh(OfflineClient(mail=idle), counting)
    assert value("penstock_queue_pending", {"queue": "billing"}) is None
    assert b"billing" not in generate_latest(registry)
