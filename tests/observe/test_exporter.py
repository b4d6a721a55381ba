"""What `penstock metrics` serves, what dashboards and alerts ask for, and OpenTelemetry's way."""

from __future__ import annotations

import json
import re
import urllib.request
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from prometheus_client import CollectorRegistry

from penstock.observe import Event, Name, emit, metrics, otel
from penstock.observe.exporter import DatabaseCollector
from penstock.observe.instruments import every_metric
from penstock.postgres.call import run
from tests.acceptance.commandline import CommandLine
from tests.docs.pages import ROOT, Page

if TYPE_CHECKING:
    import psycopg

    from tests.fixtures.databases import Database

ALERTS = yaml.safe_load((ROOT / "ops/prometheus/alerts.yml").read_text())["groups"][0]["rules"]
BOARD = json.loads((ROOT / "ops/grafana/penstock.json").read_text())


def asked_for(expression: str) -> set[str]:
    found = re.findall(r"\bpenstock_\w+", expression)
    return {re.sub(r"_(bucket|sum|count)$", "", name) for name in found}


@pytest.fixture
def registry(db: psycopg.Connection[Any]) -> CollectorRegistry:
    registry = CollectorRegistry()
    registry.register(DatabaseCollector(lambda call: run(db, call)))  # type: ignore[arg-type]
    return registry


def test_the_database_is_told_queue_by_queue(
    registry: CollectorRegistry, db: psycopg.Connection[Any]
) -> None:
    db.execute("select penstock.create_queue('q', 't', max_delivery_attempts => 1)")
    db.execute("select penstock.create_reader('r', 't')")
    list(registry.collect())
    for _ in range(4):
        db.execute("select penstock.publish_message('t', '1')")
    db.execute("select penstock.consume_messages_batch('q', 'token', 30, 3)")
    db.execute("select penstock.ack_message('q', 1, 'token')")
    db.execute("select penstock.nack_message('q', 2, 'token')")

    def value(name: str, **labels: str) -> float | None:
        return registry.get_sample_value(f"penstock_{name}", labels)

    assert value("up") == 1
    assert value("topic_published_total", topic="t") == 4
    # What was counted is not counted again, and not forgotten.
    assert value("topic_published_total", topic="t") == 4
    assert value("queue_acked_total", queue="q") == 1
    assert value("queue_pending", queue="q") == 1
    assert value("queue_processing", queue="q") == 1
    assert value("queue_dead", queue="q") == 1
    assert value("queue_paused", queue="q") == 0
    assert value("reader_lag", reader="r") == 4
    assert value("health", check="dead letters") == 0
    assert value("health", check="indexes") == 1
    assert value("segments", kind="messages", state="written") == 1
    db.execute("select penstock.pause_queue('q')")
    assert value("queue_paused", queue="q") == 1
    db.close()


def test_a_database_that_is_away_is_told_as_such(
    registry: CollectorRegistry, db: psycopg.Connection[Any]
) -> None:
    db.close()
    assert registry.get_sample_value("penstock_up") == 0
    assert registry.get_sample_value("penstock_queue_pending", {"queue": "q"}) is None


def test_every_metric_has_the_kind_and_the_labels_that_are_documented(
    registry: CollectorRegistry,
) -> None:
    metrics.Metrics(process := CollectorRegistry())
    shown = {
        metric.name + ("_total" if metric.type == "counter" else ""): metric.type
        for each in (registry, process)
        for metric in each.collect()
    }
    assert shown == {name: kind for name, (kind, _, _) in every_metric().items()}


def test_it_is_served_over_http_until_it_is_interrupted(database: Database) -> None:
    process = CommandLine(database.dsn).start("metrics", "--port", "0")
    assert process.stderr is not None
    (address,) = re.findall(r"http://127\.0\.0\.1:\d+/metrics", process.stderr.readline())
    with urllib.request.urlopen(address, timeout=60) as answer:
        assert "penstock_up 1.0" in answer.read().decode()
    process.terminate()
    process.communicate(timeout=60)
    assert process.returncode == 0


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert["alert"])
def test_an_alert_asks_for_what_there_is_and_has_its_page(alert: Any) -> None:
    assert asked_for(alert["expr"])
    assert asked_for(alert["expr"]) <= every_metric().keys()
    page, _, anchor = alert["annotations"]["runbook"].partition("#")
    assert anchor == alert["alert"].lower()
    assert anchor in Page(ROOT / page).anchors
    for label in re.findall(r"\$labels\.(\w+)", alert["annotations"]["summary"]):
        assert any(label in every_metric()[name][2] for name in asked_for(alert["expr"])), label


@pytest.mark.parametrize("panel", BOARD["panels"], ids=lambda panel: panel["title"])
def test_a_panel_asks_for_what_there_is(panel: Any) -> None:
    for target in panel["targets"]:
        asked = asked_for(target["expr"])
        assert asked
        assert asked <= every_metric().keys()
        for label in re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]):
            assert all(label in every_metric()[name][2] for name in asked), label


def test_checks_named_by_the_alerts_exist(db: psycopg.Connection[Any]) -> None:
    checks = {name for (name,) in db.execute("select name from penstock.health()")}
    named = {
        name
        for alert in ALERTS
        for group in re.findall(r'check!?[=~]+"([^"]+)"', alert["expr"])
        for name in group.split("|")
    }
    assert named
    assert named <= checks


def test_opentelemetry_gets_the_same_names_and_numbers() -> None:
    reader = InMemoryMetricReader()
    with otel.start(MeterProvider([reader])):
        emit(Event(Name.MESSAGE_PUBLISHED, topic="orders", count=3))
        emit(Event(Name.MESSAGE_FAILED, queue="q", error_kind="ValueError", seconds=0.5))
        emit(Event(Name.WORKER_STARTED))
        emit(Event(Name.WORKER_STARTED))
        emit(Event(Name.WORKER_STOPPED))
    emit(Event(Name.MESSAGE_PUBLISHED, topic="orders", count=100))
    data: Any = reader.get_metrics_data()
    (scope,) = data.resource_metrics[0].scope_metrics
    found = {metric.name: list(metric.data.data_points) for metric in scope.metrics}
    (published,) = found["penstock_messages_published"]
    assert (published.value, dict(published.attributes)) == (3, {"topic": "orders"})
    assert [each.value for each in found["penstock_workers"]] == [1]
    (handling,) = found["penstock_handler_seconds"]
    assert (handling.count, handling.sum) == (1, 0.5)
    known = {re.sub("_total$", "", name) for name in every_metric()}
    assert found.keys() <= known
