"""Results as files: the figures of a part as JSON; its history condensed and packed, on request."""

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


def write(out: Path, report: Report) -> None:
    """The figures, from which `tools/proof_page.py` makes the page."""
    out.mkdir(parents=True, exist_ok=True)
    text = json.dumps(document(report), indent=1, ensure_ascii=False) + "\n"
    (out / f"{report.part.name}.json").write_text(text, encoding="utf-8")


def pack(folder: Path, report: Report, histories: Iterable[Path]) -> Path | None:
    """Write the condensed history of a part, and say where; None: the part has none."""
    lines = condense.lines(histories)
    if not lines:
        return None
    folder.mkdir(parents=True, exist_ok=True)
    packed = folder / f"{report.part.name}.history.jsonl.gz"
    # Without a time or a name in it, so that the same history gives the same file.
    packed.write_bytes(gzip.compress("".join(lines).encode(), mtime=0))
    return packed


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
