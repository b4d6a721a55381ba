"""Delta, written by the `deltalake` package: no jar, the same table for every Delta reader.

A commit carries Delta's own application transaction (app id, version), so a batch that is written
again after a crash finds itself in the log and writes nothing.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake.transaction import AddAction

from penstock.spark.lake import data_files
from penstock.spark.lake.lake_table import Compaction, Lake, Made, Wanted

if TYPE_CHECKING:
    from collections.abc import Sequence


class DeltaLake(Lake):
    """A Delta table in a folder or under a URI."""

    def __init__(self, root: str, by: tuple[str, ...] = ("topic", "day")) -> None:
        self.root, self.by = root, by

    @property
    def layout(self) -> data_files.Layout:
        return data_files.Layout(self.root, by=self.by)

    def exists(self) -> bool:
        return DeltaTable.is_deltatable(self.root)

    def table(self) -> DeltaTable:
        return DeltaTable(self.root)

    def schema(self) -> pa.Schema:
        return pa.schema(self.table().schema().to_arrow())

    def version_of(self, app: str) -> int | None:
        return self.table().transaction_version(app) if self.exists() else None

    def commit(self, made: Sequence[Made], schema: pa.Schema, app: str, version: int) -> None:
        self._create(schema)
        self.table().create_write_transaction(
            [_add(each) for each in made],
            mode="append",
            schema=schema,
            partition_by=list(self.by),
            commit_properties=CommitProperties(app_transactions=[Transaction(app, version)]),
        )

    def _create(self, schema: pa.Schema) -> None:
        if not self.exists():
            DeltaTable.create(self.root, schema, mode="ignore", partition_by=list(self.by))

    def pieces(self, wanted: Wanted) -> list[data_files.Piece]:
        listing = pa.table(self.table().get_add_actions(flatten=True))
        return [
            piece
            for row in listing.to_pylist()
            if wanted.partition((piece := _piece(self.root, row)).values) and _overlaps(row, wanted)
        ]

    def compact(self, *, below_bytes: int, keep_hours: int) -> Compaction:
        table = self.table()
        done: dict[str, Any] = table.optimize.compact(target_size=below_bytes)
        table.vacuum(
            retention_hours=keep_hours,
            dry_run=False,
            enforce_retention_duration=False,
            full=True,
            keep_versions=None,
        )
        table.create_checkpoint()
        return Compaction(int(done["numFilesRemoved"]), int(done["numFilesAdded"]))


def _add(made: Made) -> AddAction:
    return AddAction(
        path=made.path,
        size=made.bytes,
        partition_values=made.values,
        modification_time=int(time.time() * 1000),
        data_change=True,
        stats=made.stats,
    )


def _piece(root: str, row: dict[str, Any]) -> data_files.Piece:
    values = {
        name.removeprefix("partition."): str(value)
        for name, value in row.items()
        if name.startswith("partition.") and value is not None
    }
    # The log holds paths as URLs do.
    path = f"{root.rstrip('/')}/{unquote(row['path'])}"
    return data_files.Piece(path, values, row["num_records"], row["size_bytes"])


def _overlaps(row: dict[str, Any], wanted: Wanted) -> bool:
    """By the file's own statistics of the moment of publishing, where it has some."""
    low, high = row.get("min.timestamp"), row.get("max.timestamp")
    too_old = wanted.since is not None and high is not None and high < wanted.since
    too_new = wanted.until is not None and low is not None and low > wanted.until
    return not (too_old or too_new)


def replace(root: str, data: pa.Table, predicate: str | None = None) -> None:
    """Write a small table whole, or the part of it that the predicate names."""
    if predicate is not None and DeltaTable.is_deltatable(root):
        write_deltalake(root, data, mode="overwrite", predicate=predicate)
    else:
        write_deltalake(root, data, mode="overwrite", schema_mode="overwrite")
