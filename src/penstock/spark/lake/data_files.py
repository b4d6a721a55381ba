"""The Parquet files of a lake: how a task writes and reads them.

What runs on executors uses nothing of Penstock.  A task writes one file per topic and day that it
meets and reports what it wrote.  The driver's commit alone decides whether these files belong to
the table, so the files that a failed task leaves behind are never read.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import fs as arrow_fs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pyarrow.fs import FileSystem

# A folder's name ends at 255 bytes on most file systems; quoting triples what is not plain.
_LONGEST_FOLDER = 200
# Columns whose smallest and largest values let a reader skip files.
_SKIPPING = ("offset", "timestamp", "ended_at")

MADE = pa.schema(
    [
        ("path", pa.string()),
        ("values", pa.string()),
        ("rows", pa.int64()),
        ("bytes", pa.int64()),
        ("stats", pa.string()),
    ]
)
# The same for Spark, as mapInArrow wants it.
MADE_COLUMNS = "path string, values string, rows bigint, bytes bigint, stats string"


@dataclass(frozen=True, slots=True)
class Layout:
    """Where files go: root, the folder below it, and the columns that become folders."""

    root: str
    folder: str = ""
    by: tuple[str, ...] = ("topic", "day")
    # Delta keeps partition columns in its log only; Iceberg and plain readers want them in files.
    keep_columns: bool = False

    def path(self, values: Sequence[str]) -> str:
        parts = [
            f"{name}={folder_name(value)}" for name, value in zip(self.by, values, strict=True)
        ]
        name = f"part-{uuid.uuid4().hex}.zstd.parquet"
        return "/".join([*([self.folder] if self.folder else []), *parts, name])


def folder_name(value: str) -> str:
    """A value as part of a path; one too long for a folder is cut, and a hash is added."""
    quoted = quote(value, safe=" -_.")
    # "." and ".." mean something to file systems; a leading "_" or "." hides a folder from readers.
    quoted = f"%{ord(quoted[0]):02X}{quoted[1:]}" if quoted[:1] in (".", "_") else quoted
    if len(quoted) <= _LONGEST_FOLDER:
        return quoted or "%20"
    return f"{quoted[: _LONGEST_FOLDER - 17]}-{hashlib.sha256(value.encode()).hexdigest()[:16]}"


def writer(layout: Layout) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """What `mapInArrow` runs: batches in, one line per file written out."""

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        files = OpenFiles(layout)
        try:
            for batch in batches:
                files.add(batch)
        except BaseException:
            files.abandon()
            raise
        yield from files.close()

    return write


class OpenFiles:
    """The files that one task has open, one per combination of partition values."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._fs, self._root = arrow_fs.FileSystem.from_uri(as_uri(layout.root))
        self._open: dict[tuple[str, ...], _File] = {}

    def add(self, batch: pa.RecordBatch) -> None:
        for values, part in split(batch, self._layout.by):
            kept = part if self._layout.keep_columns else part.drop_columns(list(self._layout.by))
            self._file(values, kept.schema).add(kept)

    def _file(self, values: tuple[str, ...], schema: pa.Schema) -> _File:
        found = self._open.get(values)
        if found is None:
            path = self._layout.path(values)
            full = f"{self._root}/{path}"
            self._fs.create_dir(full.rpartition("/")[0], recursive=True)
            found = _File(path, self._fs.open_output_stream(full), schema)
            self._open[values] = found
        return found

    def close(self) -> Iterator[pa.RecordBatch]:
        rows = [
            {"values": json.dumps(dict(zip(self._layout.by, values, strict=True))), **each.close()}
            for values, each in self._open.items()
        ]
        if rows:
            yield pa.RecordBatch.from_pylist(rows, schema=MADE)

    def abandon(self) -> None:
        for each in self._open.values():
            each.abandon()


class _File:
    def __init__(self, path: str, stream: Any, schema: pa.Schema) -> None:
        self._path, self._stream = path, stream
        self._writer = pq.ParquetWriter(stream, schema, compression="zstd")
        self._rows = 0
        self._bounds: dict[str, tuple[Any, Any]] = {}
        self._nulls: dict[str, int] = {}

    def add(self, batch: pa.RecordBatch) -> None:
        self._writer.write_batch(batch)
        self._rows += batch.num_rows
        for name in _SKIPPING:
            if name in batch.schema.names:
                self._widen(name, batch.column(name))

    def _widen(self, name: str, column: Any) -> None:
        self._nulls[name] = self._nulls.get(name, 0) + column.null_count
        found = pc.min_max(column).as_py()
        if found["min"] is None:
            return
        low, high = self._bounds.get(name, (found["min"], found["max"]))
        self._bounds[name] = (min(low, found["min"]), max(high, found["max"]))

    def close(self) -> dict[str, Any]:
        self._writer.close()
        size = self._stream.tell()
        self._stream.close()
        return {"path": self._path, "rows": self._rows, "bytes": size, "stats": self._stats()}

    def _stats(self) -> str:
        low = {name: _plain(bounds[0]) for name, bounds in self._bounds.items()}
        high = {name: _plain(bounds[1]) for name, bounds in self._bounds.items()}
        return json.dumps(
            {
                "numRecords": self._rows,
                "minValues": low,
                "maxValues": high,
                "nullCount": self._nulls,
            }
        )

    def abandon(self) -> None:
        self._stream.close()


def _plain(value: Any) -> Any:
    """Delta writes moments as ISO text with milliseconds at least."""
    return value.isoformat(timespec="microseconds") if hasattr(value, "isoformat") else value


def split(
    batch: pa.RecordBatch, by: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], pa.RecordBatch]]:
    """The rows of each combination of values, as text; mostly there is just one."""
    if not by:
        yield (), batch
        return
    name, *rest = by
    column = batch.column(name).cast(pa.string())
    for value in pc.unique(column).to_pylist():
        if value is None:
            raise ValueError(f"column {name} is null; the lake is partitioned by it")
        part = batch if len(pc.unique(column)) == 1 else batch.filter(pc.equal(column, value))
        for values, piece in split(part, tuple(rest)):
            yield (value, *values), piece


def as_uri(location: str) -> str:
    """An address for pyarrow: a URI as it is, anything else a path of this machine."""
    if "://" in location:
        return location
    return f"file://{quote(location)}"


@dataclass(frozen=True, slots=True)
class Piece:
    """One file to read, and the values of its partition columns."""

    path: str
    values: dict[str, str]
    rows: int | None = None
    bytes: int | None = None


def reader(schema: pa.Schema) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """What `mapInArrow` runs over a listing of files: their rows, in one schema."""

    def read(listing: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in listing:
            for row in batch.to_pylist():
                yield from read_file(row["path"], json.loads(row["values"]), schema)

    return read


def read_file(path: str, values: dict[str, str], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The rows of one file; a column it lacks comes from its partition, or is null."""
    where, local = arrow_fs.FileSystem.from_uri(as_uri(path))
    with where.open_input_file(local) as stream:
        opened = pq.ParquetFile(stream)
        for batch in opened.iter_batches(batch_size=10_000):
            yield fitted(batch, values, schema)


def fitted(batch: pa.RecordBatch, values: dict[str, str], schema: pa.Schema) -> pa.RecordBatch:
    columns = []
    for field in schema:
        if field.name in batch.schema.names:
            columns.append(batch.column(field.name).cast(field.type))
        else:
            value = pa.scalar(values.get(field.name), pa.string()).cast(field.type)
            columns.append(pa.repeat(value, batch.num_rows))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def write_whole(store: FileSystem, path: str, content: bytes) -> None:
    """All or nothing: a reader finds the old document or the new one."""
    store.create_dir(path.rpartition("/")[0], recursive=True)
    with store.open_output_stream(f"{path}.new") as stream:
        stream.write(content)
    store.move(f"{path}.new", path)
