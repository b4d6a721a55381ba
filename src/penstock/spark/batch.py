"""Batch reads: a stable view of an entity, bounded when it is planned, in pieces of bounded size.

Spark keeps the planned pieces with the DataFrame, so a second action reads the same pieces: what is
published afterwards is not in them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader

from penstock.spark import reading, rows, tables
from penstock.spark.connecting import Database
from penstock.spark.log import Log
from penstock.spark.travel import Traveller

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa
    from pyspark.sql.datasource import InputPartition
    from pyspark.sql.types import StructType

    from penstock.spark.options import ReadOptions


class PenstockReader(Traveller, DataSourceReader):
    """A planned batch read of messages or receipts."""

    def __init__(self, info: str, options: ReadOptions, schema: StructType) -> None:
        self._info = info
        self._options = options
        self._schema = schema

    def partitions(self) -> Sequence[InputPartition]:
        database = Database(self._info)
        try:
            return self._tasks(database)
        finally:
            database.close()

    def _tasks(self, database: Database) -> Sequence[InputPartition]:
        options = self._options
        log = Log(database, options)
        scope = log.scope()
        bounds = log.start(options.start, scope), log.start(options.end, scope)
        filters = reading.Filters(options.since, options.until, options.tenant, options.key)
        # A read from an offset is a part of a stream, and gets the messages as the stream would.
        as_stream = options.start.offset is not None
        tasks = log.tasks(self._schema, scope, bounds, filters, as_stream=as_stream)
        # Without any, Spark would ask for a task of its own making.
        return tasks or [reading.Task("")]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, reading.Task)
        if partition.query:
            yield from rows.run(self._info, partition, self._schema)


class TableReader(PenstockReader):
    """A planned batch read of what is no log: queues, dead letters, statistics."""

    def _tasks(self, database: Database) -> Sequence[InputPartition]:
        queries = tables.queries(database, self._options, self._schema)
        return [reading.Task(query) for query in queries] or [reading.Task("")]
