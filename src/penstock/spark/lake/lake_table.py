"""What every lake format promises, so that pipelines need not know which one they write."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

from penstock.spark.lake import data_files

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession

_TASKS = 4
_TASK_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Made:
    """A file that a task wrote; it joins the table with the commit."""

    path: str
    values: dict[str, str]
    rows: int
    bytes: int
    stats: str


@dataclass(frozen=True, slots=True)
class Compaction:
    """What compaction did."""

    files_before: int = 0
    files_after: int = 0

    def __add__(self, other: Compaction) -> Compaction:
        return Compaction(
            self.files_before + other.files_before, self.files_after + other.files_after
        )


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which files a reader needs; rows still have to be filtered."""

    topics: tuple[str, ...] = ()
    since: datetime | None = None
    until: datetime | None = None

    def partition(self, values: dict[str, str]) -> bool:
        """Could this partition hold wanted rows?"""
        if self.topics and values.get("topic") not in self.topics:
            return False
        if "day" not in values:
            return True
        day = date.fromisoformat(values["day"])
        after_end = self.until is not None and day > self.until.astimezone(UTC).date()
        before_start = self.since is not None and day < self.since.astimezone(UTC).date()
        return not (after_end or before_start)


class Lake(ABC):
    """A table of files.  A batch is written at most once under its (app, version)."""

    root: str
    by: tuple[str, ...]

    @property
    @abstractmethod
    def layout(self) -> data_files.Layout:
        """Where tasks write."""

    @abstractmethod
    def exists(self) -> bool: ...

    @abstractmethod
    def schema(self) -> pa.Schema:
        """The table's columns."""

    @abstractmethod
    def version_of(self, app: str) -> int | None:
        """The highest batch that `app` has committed here."""

    @abstractmethod
    def commit(self, made: Sequence[Made], schema: pa.Schema, app: str, version: int) -> None:
        """Make the files part of the table, together with the note that (app, version) is done."""

    @abstractmethod
    def pieces(self, wanted: Wanted) -> list[data_files.Piece]:
        """The files that may hold wanted rows."""

    @abstractmethod
    def compact(self, *, below_bytes: int, keep_hours: int) -> Compaction:
        """Make few large files of many small ones; readers see one or the other."""

    def write(self, frame: DataFrame, app: str, version: int) -> int:
        """Write a batch unless it was written before; returns the number of rows written now."""
        done = self.version_of(app)
        if done is not None and done >= version:
            return 0
        made = self._make_files(frame)
        if not made and done is not None:
            return 0
        self.commit(made, arrow_schema(frame), app, version)
        return sum(each.rows for each in made)

    def _make_files(self, frame: DataFrame) -> list[Made]:
        lines = frame.mapInArrow(data_files.writer(self.layout), data_files.MADE_COLUMNS).collect()
        return [
            Made(row["path"], json.loads(row["values"]), row["rows"], row["bytes"], row["stats"])
            for row in lines
        ]

    def read(self, spark: SparkSession, wanted: Wanted | None = None) -> DataFrame:
        """The table's rows, as far as whole files can be left out."""
        return read_pieces(spark, self.pieces(wanted or Wanted()), self.schema())


def read_pieces(
    spark: SparkSession, pieces: Sequence[data_files.Piece], schema: pa.Schema
) -> DataFrame:
    """A DataFrame over files: read by executors, several at once."""
    columns = from_arrow_schema(schema)
    if not pieces:
        return spark.createDataFrame([], columns)
    listing: list[tuple[Any, ...]] = [(each.path, json.dumps(each.values)) for each in pieces]
    frame = spark.createDataFrame(listing, "path string, values string")
    size = sum(each.bytes or 0 for each in pieces)
    # A task reads several small files: starting one costs more than reading a small file.
    spread = frame.repartition(min(len(listing), max(_TASKS, size // _TASK_BYTES)))
    return spread.mapInArrow(data_files.reader(schema), columns)


def arrow_schema(frame: DataFrame) -> pa.Schema:
    """A DataFrame's columns as the tasks' Arrow batches have them."""
    found = to_arrow_schema(frame.schema, timezone="UTC")
    # Nothing is required for good: a later release may not fill a column any more.
    return pa.schema([pa.field(each.name, each.type) for each in found])
