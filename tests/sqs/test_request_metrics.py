"""The counters behind /metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.sqs.http.request_metrics import RequestMetrics

if TYPE_CHECKING:
    from pathlib import Path


def test_counters_of_several_processes_are_added(tmp_path: Path) -> None:
    one, two = (RequestMetrics(access_log=False, folder=tmp_path) for _ in range(2))
    one.note("SendMessage", 200, 0.002, None)
    one.share(3)
    (tmp_path / "other.json").write_bytes(next(tmp_path.glob("[0-9]*.json")).read_bytes())
    two.note("SendMessage", 200, 0.2, None)
    text = two.text(1)
    assert 'penstock_sqs_requests_total{action="SendMessage",status="200"} 2' in text
    assert 'penstock_sqs_request_seconds_bucket{action="SendMessage",le="0.0025"} 1' in text
    assert 'penstock_sqs_request_seconds_count{action="SendMessage"} 2' in text
    assert "penstock_sqs_open_polls 4" in text
