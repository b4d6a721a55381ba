"""The small tables of figures, written whole: a reader sees the old ones or the new ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from penstock.spark.pipelines.analyse.figures import TABLES
from penstock.spark.pipelines.lake import Format

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class Tables:
    """Where they stand, and in which format."""

    root: Path
    format: Format

    def write(self, name: str, rows: pa.Table) -> None:
        """The whole table anew."""
        if self.format is Format.DELTA:
            _replace(str(self.root / name), rows)
        else:
            _write_file(rows, self.root / name)

    def write_days(self, name: str, rows: pa.Table, days: Sequence[str]) -> None:
        """The rows of these days anew; those of other days stay."""
        if self.format is Format.DELTA:
            listed = ", ".join(f"'{day}'" for day in days)
            _replace(str(self.root / name), rows, f"day in ({listed})")
            return
        for day in days:
            mine = rows.filter(pc.equal(rows["day"].cast(pa.string()), day))
            # The folder says the day: readers would meet it twice.
            _write_file(mine.drop_columns(["day"]), self.root / name / f"day={day}")

    def locations(self) -> dict[str, str]:
        return {name: str(self.root / name) for name in ("attempts", *TABLES)}


def _replace(location: str, rows: pa.Table, predicate: str | None = None) -> None:
    # Workers import this module's package, and need no Delta.
    from penstock.spark.pipelines.lake import delta  # noqa: PLC0415

    delta.replace(location, rows, predicate)


def _write_file(rows: pa.Table, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    new = folder / ".part.parquet.new"
    pq.write_table(rows, new, compression="zstd")
    new.replace(folder / "part.parquet")
