"""Iceberg, written by `pyiceberg`: into its own catalog beside the data, or into an existing one.

The batch that an application committed last stands in the table's properties, changed in the same
commit that adds the files.
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs as arrow_fs
from pyiceberg import expressions
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.io.pyarrow import parquet_file_to_data_file

from penstock.spark.lake import data_files
from penstock.spark.lake.lake_table import Compaction, Lake, Made, Wanted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyiceberg.manifest import DataFile
    from pyiceberg.table import Table

_PROPERTY = "penstock.app."
# Its types describe what is parsed, not what is called.
make: Any = expressions


class IcebergLake(Lake):
    """A table of an Iceberg catalog; without a catalog, SQLite in the folder keeps one."""

    def __init__(
        self,
        root: str,
        by: tuple[str, ...] = ("topic", "day"),
        *,
        catalog: str | None = None,
        table: str = "penstock.messages",
    ) -> None:
        self.root, self.by = root, by
        self._name = table
        self._catalog = _own_catalog(root) if catalog is None else load_catalog(catalog)

    @property
    def layout(self) -> data_files.Layout:
        return data_files.Layout(self.root, folder="data", by=self.by, keep_columns=True)

    def exists(self) -> bool:
        return self._catalog.table_exists(self._name)

    def table(self) -> Table:
        return self._catalog.load_table(self._name)

    def schema(self) -> pa.Schema:
        return _without_large_types(self.table().schema().as_arrow())

    def version_of(self, app: str) -> int | None:
        try:
            found = self.table().properties.get(_PROPERTY + app)
        except NoSuchTableError:
            return None
        return None if found is None else int(found)

    def commit(self, made: Sequence[Made], schema: pa.Schema, app: str, version: int) -> None:
        if not self.exists():
            self._create(schema)
        with self.table().transaction() as transaction:
            transaction.set_properties({_PROPERTY + app: str(version)})
            if made:
                paths = [f"{self.root.rstrip('/')}/{each.path}" for each in made]
                transaction.add_files(paths, check_duplicate_files=False)

    def _create(self, schema: pa.Schema) -> None:
        namespace = self._name.rpartition(".")[0]
        self._catalog.create_namespace_if_not_exists(namespace)
        table = self._catalog.create_table(self._name, schema, location=self.root)
        with table.update_spec() as spec:
            for name in self.by:
                spec.add_identity(name)

    def pieces(self, wanted: Wanted) -> list[data_files.Piece]:
        plan = self.table().scan(row_filter=_filter(wanted)).plan_files()
        return [
            data_files.Piece(
                task.file.file_path, {}, task.file.record_count, task.file.file_size_in_bytes
            )
            for task in plan
        ]

    def compact(self, *, below_bytes: int, keep_hours: int) -> Compaction:
        table = self.table()
        small: dict[Any, list[DataFile]] = defaultdict(list)
        for task in table.scan().plan_files():
            if task.file.file_size_in_bytes < below_bytes:
                small[task.file.partition].append(task.file)
        done = Compaction()
        for group in small.values():
            if len(group) > 1:
                self._merge(group)
                done += Compaction(len(group), 1)
        self._sweep(datetime.now(UTC) - timedelta(hours=keep_hours))
        return done

    def _merge(self, group: Sequence[DataFile]) -> None:
        folder = group[0].file_path.rpartition("/")[0]
        path = f"{folder}/part-{uuid.uuid4().hex}.zstd.parquet"
        _concatenate([each.file_path for each in group], path, self.schema())
        table = self.table()
        merged = parquet_file_to_data_file(table.io, table.metadata, path)
        with (
            table.transaction() as transaction,
            transaction.update_snapshot().overwrite() as change,
        ):
            for each in group:
                change.delete_data_file(each)
            change.append_data_file(merged)

    def _sweep(self, before: datetime) -> None:
        """Forget old snapshots, and delete the old files that none of the others uses."""
        self.table().maintenance.expire_snapshots().older_than(before).commit()
        used = {_local(path) for path in self.table().inspect.all_files()["file_path"].to_pylist()}
        where, root = arrow_fs.FileSystem.from_uri(data_files.as_uri(self.root))
        selector = arrow_fs.FileSelector(f"{root}/data", recursive=True, allow_not_found=True)
        for found in where.get_file_info(selector):
            old = found.mtime is not None and found.mtime < before
            if found.is_file and old and found.path not in used:
                where.delete_file(found.path)


def _own_catalog(root: str) -> Catalog:
    if "://" in root:
        raise ValueError(
            "an Iceberg table on remote storage needs a catalog: name one from your "
            "pyiceberg configuration with --catalog"
        )
    Path(root).mkdir(parents=True, exist_ok=True)
    return load_catalog(
        "penstock", type="sql", uri=f"sqlite:///{Path(root).resolve()}/catalog.db", warehouse=root
    )


def _filter(wanted: Wanted) -> Any:
    found = make.AlwaysTrue()
    if wanted.topics:
        found = make.And(found, make.In("topic", wanted.topics))
    if wanted.since is not None:
        found = make.And(found, make.GreaterThanOrEqual("day", _day(wanted.since)))
    if wanted.until is not None:
        found = make.And(found, make.LessThanOrEqual("day", _day(wanted.until)))
    return found


def _day(moment: datetime) -> str:
    return moment.astimezone(UTC).date().isoformat()


def _concatenate(paths: Sequence[str], target: str, schema: pa.Schema) -> None:
    where, local = arrow_fs.FileSystem.from_uri(data_files.as_uri(target))
    with (
        where.open_output_stream(local) as stream,
        pq.ParquetWriter(stream, schema, compression="zstd") as merged,
    ):
        for path in paths:
            for batch in data_files.read_file(path, {}, schema):
                merged.write_batch(batch)


def _local(path: str) -> str:
    return str(arrow_fs.FileSystem.from_uri(data_files.as_uri(path))[1])


def _without_large_types(schema: pa.Schema) -> pa.Schema:
    """Spark's Arrow batches have small strings; Iceberg speaks of large ones; no field ids."""
    return pa.schema([pa.field(each.name, _small(each.type)) for each in schema])


def _small(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_large_string(kind):
        return pa.string()
    if pa.types.is_large_binary(kind):
        return pa.binary()
    if pa.types.is_map(kind):
        return pa.map_(_small(kind.key_type), _small(kind.item_type))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(pa.field("element", _small(kind.value_type)))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(each.name, _small(each.type)) for each in kind])
    return kind
