"""Results as files: the figures of a part as JSON, its history condensed and packed."""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING

from prove import condense

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from prove.model import Outcome, Report

DIGITS = 3


def write(out: Path, report: Report, histories: Iterable[Path]) -> None:
    out.mkdir(parents=True, exist_ok=True)
    text = json.dumps(document(report), indent=1, ensure_ascii=False) + "\n"
    (out / f"{report.part.name}.json").write_text(text, encoding="utf-8")
    packed = out / f"{report.part.name}.history.jsonl.gz"
    packed.unlink(missing_ok=True)
    lines = condense.lines(histories)
    if lines:
        # Without a time or a name in it, so that the same history gives the same file.
        packed.write_bytes(gzip.compress("".join(lines).encode(), mtime=0))


def document(report: Report) -> dict[str, object]:
    return {
        "part": report.part.name,
        "status": report.status,
        "seed": report.seed,
        "size": "quick" if report.quick else "full",
        "command": command(report),
        "seconds": round(report.seconds, 1),
        "honest": _outcome(report.honest),
        "twin": _outcome(report.twin) if report.twin else None,
        "environment": dict(report.environment),
    }


def command(report: Report) -> str:
    """How to play it again."""
    return f"make prove PART={report.part.name} SEED={report.seed}"


def _outcome(outcome: Outcome) -> dict[str, object]:
    return {
        "skipped": outcome.skipped,
        "broken": dict(outcome.broken),
        "counts": {name: round(value, DIGITS) for name, value in outcome.counts.items()},
    }
