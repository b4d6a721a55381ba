"""Rows chosen once and then sent in numbered chunks, at a pace.

The choice is written to the state first.  So a dry run shows what a real run would send, a run that
ends early continues with the very same rows, and what is published meanwhile is not mixed in.
"""

from __future__ import annotations

import json
import shutil
import time
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.spark.lake.lake_table import arrow_schema
from penstock.spark.pipelines.state import Chunk, Ledger, work_off

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame

    from penstock.spark.pipelines.run import Run

_DONE = "selection.json"


class Selection:
    """The rows of one state, in files of one chunk each."""

    def __init__(self, run: Run, chunk_rows: int) -> None:
        self._run, self._chunk_rows = run, chunk_rows
        self.folder: Path = run.state.folder / "selection"

    @property
    def rows(self) -> int | None:
        """How many rows were chosen; None: nothing was chosen yet."""
        found = self._run.state.read(_DONE)
        return None if found is None else int(found["rows"])

    def fill_from_frame(self, frame: DataFrame, order: str) -> int:
        """Choose the rows of a DataFrame, in order."""
        ordered = frame.orderBy(order).toLocalIterator(prefetchPartitions=True)
        return self.fill((row.asDict() for row in ordered), arrow_schema(frame))

    def fill(self, rows: Iterable[dict[str, Any]], schema: pa.Schema) -> int:
        """Choose rows that come one by one, without holding more than a chunk of them."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        for number, part in enumerate(_parts(rows, self._chunk_rows)):
            pq.write_table(
                pa.Table.from_pylist(part, schema=schema), self.folder / f"part-{number:08}.parquet"
            )
        return self._filled()

    def _filled(self) -> int:
        rows = sum(int(pq.read_metadata(path).num_rows) for path in self.files())
        self._run.state.write(_DONE, {"rows": rows})
        return rows

    def files(self) -> list[Path]:
        return sorted(self.folder.glob("*.parquet"))

    def send(self, publish: Callable[[Chunk, Path], int], *, rate: float | None = None) -> None:
        """Send every chunk that was not sent, not faster than the rate (rows a second)."""
        ledger = Ledger(self._run.state)
        total = self.rows or 0
        before = sum(result["rows"] for _chunk, result in ledger.finished())
        pace = _RateLimit(rate)

        def do(chunk: Chunk) -> dict[str, Any]:
            path = self.folder / chunk.work["file"]
            pace.wait()
            rows = publish(chunk, path)
            pace.passed(pq.read_metadata(path).num_rows)
            self._run.teller.add(rows)
            self._run.teller.tell(lag=max(0, total - before - self._run.teller.rows))
            return {"rows": rows}

        names = [path.name for path in self.files() if pq.read_metadata(path).num_rows]
        left = iter(names[ledger.planned() :])
        work_off(ledger, do, lambda: _next_file(left))


def frame_of(run: Run, path: Path) -> DataFrame:
    """A chunk's rows, in order; they travel from here, so executors need not reach this disk."""
    # Tasks are published in the order in which they end: one task keeps the rows in theirs.
    return run.spark.createDataFrame(pq.read_table(path)).coalesce(1)


def _next_file(names: Iterator[str]) -> dict[str, Any] | None:
    name = next(names, None)
    return None if name is None else {"file": name}


def _parts(rows: Iterable[dict[str, Any]], size: int) -> Iterator[list[dict[str, Any]]]:
    part: list[dict[str, Any]] = []
    for row in rows:
        part.append(row)
        if len(part) == size:
            yield part
            part = []
    if part:
        yield part


class _RateLimit:
    """Waits so that the average stays below the rate."""

    def __init__(self, rate: float | None) -> None:
        self._rate = rate
        self._began = time.monotonic()
        self._rows = 0

    def wait(self) -> None:
        if self._rate is not None:
            time.sleep(max(0.0, self._began + self._rows / self._rate - time.monotonic()))

    def passed(self, rows: int) -> None:
        self._rows += rows


def chunk_rows(rate: float | None, most: int = 50_000) -> int:
    """With a rate, a chunk is what may pass in about two seconds: a smooth stream, few jobs."""
    return most if rate is None else max(1, min(most, round(rate * 2)))


def header_condition(name: str, value: str) -> str:
    """An SQL condition on one header, whatever characters its name has."""
    quoted_name, quoted_value = (
        json.dumps(text)[1:-1].replace("'", "\\'") for text in (name, value)
    )
    return f"from_json(headers, 'map<string,string>')['{quoted_name}'] = '{quoted_value}'"
