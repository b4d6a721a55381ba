"""Batch reads of a task store, on PostgreSQL through ADBC, on MySQL and MariaDB through asyncmy.

Tasks change in place: a DataFrame shows their state at the time of reading.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from psycopg import sql
from pyspark.sql.datasource import DataSourceReader, InputPartition

from penstock.spark.source import arrow_rows, columns, log_queries
from penstock.spark.source.arrow_rows import arrow_schema
from penstock.spark.source.driver_connection import DriverConnection, is_mysql
from penstock.spark.source.portable_code import Portable
from penstock.tasks.options import Tables

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql.types import StructType

    from penstock.spark.source.source_options import ReadOptions

_FETCH = 10_000


@dataclass(frozen=True)
class Range(InputPartition):
    """Rows of a table with keys above and up to; None: without an end."""

    query: str
    parameters: tuple[Any, ...] = ()


def _table(options: ReadOptions) -> str:
    """The table, its name checked as the task store checks it."""
    tables = Tables(tasks=options.tasks_table, attempts=options.attempts_table)
    return tables.tasks if options.entity == "tasks" else tables.attempts


def pieces(info: str, options: ReadOptions, wanted: StructType) -> Sequence[Range]:
    """The table in pieces of `maxRecordsPerPartition` rows, cut at their keys."""
    table = _table(options)
    names = [columns.find(options.entity, name).name for name in wanted.fieldNames()]
    conditions, values = _conditions(options)
    step = options.rows_per_partition
    keys = (
        f"select id from (select id, row_number() over (order by id) as place from {table}) t "  # noqa: S608 - a checked name
        f"where place % {step} = 0 order by id"
    )
    if is_mysql(info):
        cuts = [row[0] for row in asyncio.run(_mysql_rows(info, keys.replace("%", "%%"), ()))]
        listed = ", ".join(names)
    else:
        database = DriverConnection(info, planning=True)
        try:
            cuts = [row[0] for row in database.rows(keys.replace("%", "%%"), {}, lasting=True)]
        finally:
            database.close()
        listed = ", ".join(_utc(options.entity, name) for name in names)
    bounds = list(zip([None, *cuts], [*cuts, None], strict=True))
    return [_range(table, listed, (conditions, values), low, high) for low, high in bounds]


def _utc(entity: str, name: str) -> str:
    # PostgreSQL's tables hold times without a zone, all UTC.
    is_time = columns.find(entity, name).type.simpleString() == "timestamp"
    return f"{name} at time zone 'UTC'" if is_time else name


def _conditions(options: ReadOptions) -> tuple[list[str], list[Any]]:
    if options.entity != "tasks":
        return [], []
    wanted = {"tenant_id": options.tenant, "topic": list(options.topics) or None}
    conditions, values = [], []
    for name, value in wanted.items():
        if isinstance(value, list):
            conditions.append(f"{name} in ({', '.join(['{}'] * len(value))})")
            values.extend(value)
        elif value is not None:
            conditions.append(f"{name} = {{}}")
            values.append(value)
    return conditions, values


def _range(
    table: str, listed: str, narrowed: tuple[list[str], list[Any]], low: Any, high: Any
) -> Range:
    conditions, values = list(narrowed[0]), list(narrowed[1])
    for condition, bound in (("id > {}", low), ("id <= {}", high)):
        if bound is not None:
            conditions.append(condition)
            values.append(bound)
    where = " and ".join(conditions) or "true"
    return Range(f"select {listed} from {table} where {where}", tuple(values))  # noqa: S608 - checked names


def run(info: str, partition: Any, wanted: StructType) -> Iterator[pa.RecordBatch]:
    """The rows of one piece."""
    assert isinstance(partition, Range)
    if is_mysql(info):
        yield from _mysql_batches(info, partition, arrow_schema(wanted))
        return
    literals = [sql.Literal(value) for value in partition.parameters]
    query = sql.SQL(partition.query).format(*literals)
    yield from arrow_rows.run(info, log_queries.ReadTask(query.as_string(None)), wanted)


def _mysql_batches(info: str, partition: Range, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    query = partition.query.format(*["%s"] * len(partition.parameters))
    found = asyncio.run(_mysql_rows(info, query, partition.parameters))
    for first in range(0, len(found), _FETCH):
        chunk = list(zip(*found[first : first + _FETCH], strict=True))
        arrays = [_array(values, field) for values, field in zip(chunk, schema, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def _array(values: tuple[Any, ...], field: pa.Field) -> pa.Array:
    if pa.types.is_boolean(field.type):
        values = tuple(None if value is None else bool(value) for value in values)
    elif pa.types.is_string(field.type):
        values = tuple(value.decode() if isinstance(value, bytes) else value for value in values)
    elif pa.types.is_timestamp(field.type):
        return pa.array(values, pa.timestamp("us")).cast(field.type)
    return pa.array(values, field.type)


async def _mysql_rows(info: str, query: str, parameters: tuple[Any, ...]) -> list[Any]:
    from penstock.tasks.options import StoreOptions  # noqa: PLC0415
    from penstock.tasks.stores.mysql_database import MySQLDatabase  # noqa: PLC0415 - an extra

    database = MySQLDatabase(info, StoreOptions(pool_size=1).settings())
    named = {f"p{number}": value for number, value in enumerate(parameters)}
    for name in named:
        query = query.replace("%s", f"%({name})s", 1)
    await database.open()
    try:
        return await database.directly(lambda session: session.rows(query, named), lasting=True)
    finally:
        await database.close()


class TaskTableReader(Portable, DataSourceReader):
    """A planned batch read of a task store."""

    def __init__(self, info: str, options: ReadOptions, schema: StructType) -> None:
        self._info = info
        self._options = options
        self._schema = schema

    def partitions(self) -> Sequence[InputPartition]:
        return pieces(self._info, self._options, self._schema)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return run(self._info, partition, self._schema)
