"""The results as JSON, for machines and for later comparison."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING

from bench import figures

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from bench.model import Result, Sample
    from bench.sizes import Sizes
    from bench.targets import Verdict

DIGITS = 3


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, DIGITS)


def _sample(sample: Sample) -> dict[str, object]:
    latency = figures.percentiles(sample.latencies)
    return {
        "messages": sample.messages,
        "seconds": _rounded(sample.seconds),
        "cpu_us": _rounded(sample.cpu_us),
        "cpu_us_by_role": {
            role: _rounded(used / 1000 / sample.messages) for role, used in sample.cpu_ns.items()
        },
        "server_cpu_us": _rounded(sample.server_cpu_us),
        "wal_bytes": _rounded(sample.wal),
        "latency_ms": asdict(latency) if latency else None,
        "yardstick_us": _rounded(sample.yardstick_ns / 1000),
    }


def _result(result: Result, edge: int) -> dict[str, object]:
    latency = result.latency
    course = [sample.cpu_us for sample in result.samples]
    return {
        "scenario": result.scenario,
        "case": asdict(result.case),
        "contestant": result.contestant,
        "skipped": result.skipped,
        "failed": result.failed,
        "note": result.note,
        "messages": result.messages,
        "messages_per_second": _rounded(result.rate),
        "cpu_us": _rounded(result.cpu_us),
        "server_cpu_us": _rounded(result.server_cpu_us),
        "wal_bytes": _rounded(result.wal),
        "latency_ms": asdict(latency) if latency else None,
        "end_over_start": _rounded(figures.end_over_start(course, edge)) if result.course else None,
        "dead_rows": dict(result.dead_rows),
        "samples": [_sample(sample) for sample in result.samples],
    }


def _verdict(verdict: Verdict) -> dict[str, object]:
    return {
        "target": verdict.title,
        "limit": verdict.limit,
        "value": _rounded(verdict.value),
        "status": verdict.status.value,
        "detail": verdict.detail,
    }


def write(
    file: Path,
    environment: Mapping[str, object],
    sizes: Sizes,
    results: Sequence[Result],
    verdicts: Sequence[Verdict],
) -> None:
    document = {
        "environment": environment,
        "sizes": asdict(sizes),
        "targets": [_verdict(verdict) for verdict in verdicts],
        "results": [_result(result, sizes.edge) for result in results],
    }
    file.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n")
