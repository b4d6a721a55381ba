"""The summaries of benchmark runs: small, readable, and the same when made again."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from bench import summary
from tests.docs.pages import ROOT

if TYPE_CHECKING:
    from pathlib import Path

KEPT = sorted((ROOT / "bench/results").glob("*.json"))
LINES = 120


def test_a_summary_leaves_samples_out_and_keeps_a_course() -> None:
    sample = {"messages": 10, "seconds": 0.123, "cpu_us": 1.23456789}
    run = {
        "sizes": {"repeats": 3},
        "results": [
            {"contestant": "penstock", "cpu_us": 1.5, "failed": None, "samples": [sample]},
            {"contestant": "textbook", "end_over_start": 1.1, "samples": [sample, sample]},
        ],
    }
    small = json.loads(summary.text(run))
    assert small == {
        "results": [
            {"contestant": "penstock", "cpu_us": 1.5},
            {
                "course": [[10, 1.23457], [10, 1.23457]],
                "contestant": "textbook",
                "end_over_start": 1.1,
            },
        ]
    }


def test_a_run_is_summed_up_into_a_file(tmp_path: Path) -> None:
    run, out = tmp_path / "run.json", tmp_path / "summary.json"
    run.write_text('[{"server": "penstock", "p50": 0.12345678}]')
    assert summary.main([str(run), str(out)]) == 0
    assert out.read_text() == '[\n  {"server": "penstock", "p50": 0.123457}\n]\n'


@pytest.mark.parametrize("path", KEPT, ids=lambda path: path.stem)
def test_what_is_kept_is_a_summary(path: Path) -> None:
    kept = path.read_text(encoding="utf-8")
    assert summary.text(json.loads(kept)) == kept
    assert len(kept.splitlines()) <= LINES
