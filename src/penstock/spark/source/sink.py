"""Writes: tasks copy rows into a stage, and one transaction of the driver publishes them.

What Spark does shapes this file: a task may run twice, the batch may, and a commit whose answer was
lost is followed by an abort.  So a batch is identified by its writer and its number, and the ledger
in the database decides.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from penstock import schema as engine
from penstock.spark.source.adbc import bulk
from penstock.spark.source.driver_connection import DriverConnection
from penstock.spark.source.option_names import InvalidOption
from penstock.spark.source.payload_columns import StageColumns
from penstock.spark.source.portable_code import Portable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql.types import StructType

    from penstock.spark.source.source_options import WriteOptions

_OPEN = "select stage, part, is_written from penstock.open_part($1, $2, $3)"
_PUBLISH = "select penstock.publish_part($1, $2, $3, $4, $5, $6)"
_COMMIT = """
select penstock.commit_write(%(write)s, %(batch)s, %(parts)s::bigint[], %(counts)s::bigint[],
    %(topic)s, %(alone)s, %(keep)s)
"""
_ABORT = "select penstock.abort_write(%(write)s, %(batch)s, %(alone)s)"
_MAY_PUBLISH = "select penstock.check_publishing(%(topic)s)"


@dataclass
class Staged(WriterCommitMessage):
    """What a task has done."""

    write_id: str
    part: int | None
    """None: nothing was staged, because the batch was published before or had no rows."""
    rows: int


class _Writer:
    """What batch and stream writes share."""

    _alone: bool
    """Whether each batch has a stage of its own: other writes of the same name may run."""

    def __init__(self, info: str, options: WriteOptions, schema: StructType) -> None:
        self._info = info
        self._options = options
        self._mapping = StageColumns(schema, json_values=options.json_values, topic=options.topic)
        if options.topic is None and not self._mapping.has_topic:
            raise InvalidOption(
                "say where to write to: option topic, or a column topic in the DataFrame"
            )
        self._check_writable()

    def _check_writable(self) -> None:
        """Raise, while the job is planned, unless the engine is there and this role may publish."""
        database = DriverConnection(self._info, planning=True)
        try:
            database.persist(engine.check)
            if self._options.topic is not None:
                database.rows(_MAY_PUBLISH, {"topic": self._options.topic})
        finally:
            database.close()

    def _stage(self, write_id: str, batch: int, rows: Iterator[pa.RecordBatch]) -> Staged:
        """Copy a task's rows into the stage; the driver publishes them."""
        first = next((each for each in rows if each.num_rows), None)
        if first is None:
            return Staged(write_id, None, 0)
        with bulk(self._info) as conn, conn.cursor() as cursor:
            cursor.execute(_OPEN, [write_id, batch, self._alone])
            stage, part, is_written = cursor.fetchone()
            # The stage is made in a transaction of its own: others must see it at once.
            conn.commit()
            if is_written:
                return Staged(write_id, None, 0)
            count = self._copy(cursor, stage, part, first, rows)
            conn.commit()
            return Staged(write_id, part, count)

    def _publish_at_once(self, rows: Iterator[pa.RecordBatch]) -> Staged:
        """At least once: stage and publish in one transaction of the task's own."""
        write_id = f"task {uuid.uuid4()}"
        first = next((each for each in rows if each.num_rows), None)
        if first is not None:
            with bulk(self._info) as conn, conn.cursor() as cursor:
                cursor.execute(_OPEN, [write_id, 0, True])
                stage, part, _is_written = cursor.fetchone()
                count = self._copy(cursor, stage, part, first, rows)
                cursor.execute(_PUBLISH, [write_id, 0, part, count, self._options.topic, True])
                cursor.fetchall()
                conn.commit()
        return Staged(write_id, None, 0)

    def _copy(self, cursor: Any, stage: str, part: int, first: pa.RecordBatch, rest: Any) -> int:
        schema, _, table = stage.partition(".")
        reader = self._reader(first, rest, part)
        copied: int = cursor.adbc_ingest(table, reader, mode="append", db_schema_name=schema)
        return copied

    def _reader(
        self, first: pa.RecordBatch, rest: Iterator[pa.RecordBatch], part: int
    ) -> pa.RecordBatchReader:
        def batches() -> Iterator[pa.RecordBatch]:
            yield self._mapping.staged(first, part)
            for each in rest:
                if each.num_rows:
                    yield self._mapping.staged(each, part)

        return pa.RecordBatchReader.from_batches(self._mapping.schema, batches())

    def _publish(self, messages: Sequence[Any], batch: int, *, keep: bool) -> None:
        done = _staged(messages)
        if not done:
            return
        asked = {
            "write": done[0].write_id,
            "batch": batch,
            "parts": [each.part for each in done],
            "counts": [each.rows for each in done],
            "topic": self._options.topic,
            "alone": self._alone,
            "keep": keep,
        }
        self._run(_COMMIT, asked)

    def _give_up(self, write_id: str, batch: int) -> None:
        self._run(_ABORT, {"write": write_id, "batch": batch, "alone": self._alone})

    def _run(self, statement: str, asked: dict[str, Any]) -> None:
        database = DriverConnection(self._info)
        try:
            database.rows(statement, asked, lasting=True)
        finally:
            database.close()


def _staged(messages: Sequence[Any]) -> list[Staged]:
    """Of the tasks that finished, those that staged rows."""
    return [each for each in messages if isinstance(each, Staged) and each.part is not None]


class PenstockWriter(Portable, DataSourceArrowWriter, _Writer):
    """A batch write: all of it, or nothing."""

    _alone = True

    def __init__(self, info: str, options: WriteOptions, schema: StructType) -> None:
        _Writer.__init__(self, info, options, schema)
        self._write_id = options.app_id or f"batch {uuid.uuid4()}"
        self._batch = options.version or 0

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        if not self._options.exactly_once:
            return self._publish_at_once(iterator)
        return self._stage(self._write_id, self._batch, iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        keep = self._options.app_id is not None
        self._publish(messages, self._batch, keep=keep)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:  # noqa: ARG002 - Spark's
        self._give_up(self._write_id, self._batch)


class PenstockStreamWriter(Portable, DataSourceStreamArrowWriter, _Writer):
    """A stream's writes: each batch exactly once, known by the query and the batch's number."""

    _alone = False

    def __init__(self, info: str, options: WriteOptions, schema: StructType) -> None:
        _Writer.__init__(self, info, options, schema)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        if not self._options.exactly_once:
            return self._publish_at_once(iterator)
        query, batch = _whose_batch()
        return self._stage(f"query {query}", batch, iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        self._publish(messages, batchId, keep=True)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        done = _staged(messages)
        if done:
            self._give_up(done[0].write_id, batchId)


def _whose_batch() -> tuple[str, int]:
    """The query and the number of its batch, which Spark tells tasks in their properties only."""
    context = TaskContext.get()
    assert context is not None, "a write runs in a task"
    query = context.getLocalProperty("sql.streaming.queryId")
    batch = context.getLocalProperty("streaming.sql.batchId")
    if query is None or batch is None:
        raise InvalidOption(
            "this Spark does not tell a task which batch it writes: use pyspark 4.2 or newer, "
            "or foreachBatch with txnAppId and txnVersion"
        )
    return query, int(batch)
