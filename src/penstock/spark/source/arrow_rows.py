"""One task's rows: its query, run through ADBC, and made to fit the schema that Spark expects.

The Arrow types stand here and not beside the columns: most of the processes that Spark starts never
see a row, and need not import pyarrow.
"""

from __future__ import annotations

import gc
import json
from contextlib import ExitStack
from functools import cache
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa

from penstock.spark.source.adbc import bulk
from penstock.spark.source.columns import KAFKA_HEADERS, InvalidColumn

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql.types import DataType, StructType

    from penstock.spark.source.log_queries import ReadTask

_CHECK_KEPT = "select penstock.check_kept($1::text::bigint[], $2::text::jsonb)"
# Small enough for the processor's cache, and for Java's allocator to pool.
_BATCH = {"adbc.postgresql.batch_size_hint_bytes": str(1 << 20)}
_TYPES: dict[str, pa.DataType] = {
    "string": pa.string(),
    "bigint": pa.int64(),
    "int": pa.int32(),
    "boolean": pa.bool_(),
    "binary": pa.binary(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    KAFKA_HEADERS.simpleString(): pa.list_(
        pa.field(
            "element",
            pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]),
        )
    ),
}


def run(info: str, task: ReadTask, wanted: StructType) -> Iterator[pa.RecordBatch]:
    """The rows of a task, batch by batch, with exactly the schema that Spark expects."""
    schema = arrow_schema(wanted)
    _settle()
    with (
        bulk(info) as conn,
        conn.cursor(adbc_stmt_kwargs=_BATCH) as cursor,
        _Lookups(info) as lookups,
    ):
        cursor.execute(task.query)
        for batch in cursor.fetch_record_batch():
            if batch.num_rows:
                yield _fitted(batch, schema, task, lookups)
        if task.check is not None:
            cursor.execute(_CHECK_KEPT, list(task.check))
            cursor.fetchall()


@cache
def _settle() -> None:
    """Once in a process: exclude the modules that are loaded by now from garbage collection.

    Spark's workers collect garbage after every task, and would scan all of pyspark each time.
    """
    gc.freeze()


class _Lookups:
    """Small queries beside the large one, on a connection that is opened when one is needed."""

    def __init__(self, info: str) -> None:
        self._info = info
        self._open = ExitStack()
        self._cursor: Any = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *problem: object) -> None:
        self._open.close()

    def __call__(self, query: str) -> pa.Table:
        if self._cursor is None:
            conn = self._open.enter_context(bulk(self._info))
            self._cursor = self._open.enter_context(conn.cursor())
        self._cursor.execute(query)
        return self._cursor.fetch_arrow_table()


def _fitted(
    batch: pa.RecordBatch, schema: pa.Schema, task: ReadTask, lookups: _Lookups
) -> pa.RecordBatch:
    """All columns in the declared types."""
    same = dict(task.same)
    sparse = task.sparse.fill(batch.columns[-1], lookups) if task.sparse else {}
    sent = iter(batch.columns)
    arrays = []
    for field in schema:
        if field.name in same:
            array = pa.repeat(pa.scalar(same[field.name]), batch.num_rows)
        elif field.name in sparse:
            assert task.sparse is not None
            array = sparse[field.name]
            if array is None:
                array = task.sparse.usual(field.name, batch.num_rows, field.type)
        else:
            array = next(sent)
        arrays.append(_cast(array, field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _cast(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    if array.type == wanted:
        return array
    if pa.types.is_list(wanted):
        return _kafka_headers(array, wanted)
    if pa.types.is_timestamp(wanted) and array.type.tz is None:
        return array.cast(pa.timestamp("us")).cast(wanted)
    return array.cast(wanted)


def _kafka_headers(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Headers as Kafka has them: names and bytes; what is no string stays JSON."""
    rows = [None if text is None else json.loads(text) for text in array.to_pylist()]
    return pa.array([None if row is None else _pairs(row) for row in rows], wanted)


def _pairs(headers: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {
            "key": name,
            "value": (value if isinstance(value, str) else json.dumps(value)).encode(),
        }
        for name, value in headers.items()
    ]


def arrow_type(wanted: DataType) -> pa.DataType:
    """The Arrow type in which Spark takes a column."""
    name = wanted.simpleString()
    if name not in _TYPES:
        raise InvalidColumn(f"{name} can't be read")
    return _TYPES[name]


def arrow_schema(wanted: StructType) -> pa.Schema:
    """Exactly the schema that Spark compares the first batch with."""
    return pa.schema(
        [pa.field(each.name, arrow_type(each.dataType), each.nullable) for each in wanted.fields]
    )
