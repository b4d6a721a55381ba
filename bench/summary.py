"""A run made small enough to keep: the figures that the documentation quotes, one result a line.

    python -m bench.summary build/bench/20261116-031347.json bench/results/reference.json

What `bench`, `bench.sqs`, `bench.tasks` and `bench.spark` write holds every sample.  It stays in
`build/bench`, which git ignores; the summary leaves out samples, and keeps the course of a cost
where a plot shows one.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

#: Significant digits.
DIGITS = 6
_LEFT_OUT = {"samples", "sizes", "settings"}


def text(document: Any) -> str:
    """The summary of a run as JSON; of a summary, the same text again."""
    return "\n".join(_lines(_small(document))) + "\n"


def _small(value: Any) -> Any:
    match value:
        case float():
            return float(f"{value:.{DIGITS}g}")
        case list():
            return [_small(each) for each in value]
        case dict():
            return _course(value) | {
                name: _small(each)
                for name, each in value.items()
                if name not in _LEFT_OUT and not _says_nothing(each)
            }
        case _:
            return value


def _says_nothing(value: Any) -> bool:
    return value is None or value in ({}, [])


def _course(result: Mapping[str, Any]) -> dict[str, Any]:
    """Messages and cost of each slice, of a result that is a course of slices."""
    if result.get("end_over_start") is None or "samples" not in result:
        return {}
    slices = result["samples"]
    return {"course": [[each["messages"], _small(each["cpu_us"])] for each in slices]}


def _lines(document: Any) -> Iterator[str]:
    """Every item of a list on a line of its own, and nothing else in several."""
    if isinstance(document, list):
        yield from ("[", *_items(document), "]")
        return
    yield "{"
    last = len(document) - 1
    for place, (name, value) in enumerate(document.items()):
        comma = "," if place < last else ""
        if isinstance(value, list) and value and isinstance(value[0], dict):
            yield from (f" {_one(name)}: [", *_items(value), f" ]{comma}")
        else:
            yield f" {_one(name)}: {_one(value)}{comma}"
    yield "}"


def _items(values: Sequence[Any]) -> Iterator[str]:
    last = len(values) - 1
    for place, value in enumerate(values):
        yield f"  {_one(value)}" + ("," if place < last else "")


def _one(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench.summary",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("run", type=Path, help="what a run wrote")
    parser.add_argument("summary", type=Path, help="where its summary goes")
    given = parser.parse_args(words)
    run = json.loads(given.run.read_text(encoding="utf-8"))
    given.summary.write_text(text(run), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
