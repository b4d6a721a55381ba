"""Batch reads, bounded when they are planned, in pieces of bounded size.

Spark keeps the planned pieces with the DataFrame, so a second action reads the same pieces: what is
published afterwards is not in them.  Queues, dead letters and statistics change in place: a
DataFrame of them is bounded by ids but not frozen, and a second action sees the state of the same
messages at that time.  Each message appears once, because each id is in one piece.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from psycopg import sql
from pyspark.sql.datasource import DataSourceReader

from penstock.spark.source import arrow_rows, columns, log_queries
from penstock.spark.source.driver_connection import DriverConnection
from penstock.spark.source.message_log import Log
from penstock.spark.source.portable_code import Portable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa
    from pyspark.sql.datasource import InputPartition
    from pyspark.sql.types import StructType

    from penstock.spark.source.source_options import ReadOptions

_CONTENTS = sql.SQL("""
select {columns} from penstock.queue_contents({queue}, {after}, {through}) m where true {more}
""")
_DEAD = sql.SQL("""
select {columns} from penstock.dead_letter_queue m
where m.id > {after} and m.id <= {through} {more}
""")
_STATISTICS = sql.SQL("""
select {columns}
from penstock.list_queues() q cross join lateral penstock.get_queue_statistics(q.name) s
where true {more}
""")
_QUEUES = """
select q.name, greatest(0, (select min(message_id) - 1 from penstock.queue_contents(q.name))),
    (select max(message_id) from penstock.queue_contents(q.name))
from penstock.list_queues() q
where %(names)s::text[] is null or q.name = any (%(names)s)
"""
_LETTERS = "select coalesce(min(id) - 1, 0), coalesce(max(id), 0) from penstock.dead_letter_queue"
_KNOWN = "select name from penstock.list_queues()"


class PenstockReader(Portable, DataSourceReader):
    """A planned batch read of messages or receipts."""

    def __init__(self, info: str, options: ReadOptions, schema: StructType) -> None:
        self._info = info
        self._options = options
        self._schema = schema

    def partitions(self) -> Sequence[InputPartition]:
        database = DriverConnection(self._info)
        try:
            return self._tasks(database)
        finally:
            database.close()

    def _tasks(self, database: DriverConnection) -> Sequence[InputPartition]:
        options = self._options
        log = Log(database, options)
        scope = log.scope()
        bounds = log.start(options.start, scope), log.start(options.end, scope)
        filters = log_queries.Filters(options.since, options.until, options.tenant, options.key)
        # A read from an offset is a part of a stream, and gets the messages as the stream would.
        as_stream = options.start.offset is not None
        tasks = log.tasks(self._schema, scope, bounds, filters, as_stream=as_stream)
        # Without any task Spark would run one with a partition that is not ours.
        return tasks or [log_queries.ReadTask("")]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, log_queries.ReadTask)
        if partition.query:
            yield from arrow_rows.run(self._info, partition, self._schema)


class TableReader(PenstockReader):
    """A planned batch read of queues, dead letters or statistics, which are not logs."""

    def _tasks(self, database: DriverConnection) -> Sequence[InputPartition]:
        queries = _table_queries(database, self._options, self._schema)
        return [log_queries.ReadTask(query) for query in queries] or [log_queries.ReadTask("")]


def _table_queries(
    database: DriverConnection, options: ReadOptions, wanted: StructType
) -> list[str]:
    """One query for each piece."""
    _check_queues(database, options)
    match options.entity:
        case "queue":
            return _queue_queries(database, options, wanted)
        case "dead_letters":
            return _letter_queries(database, options, wanted)
        case _:
            more = _among("q.name", options)
            return [_text(_STATISTICS, "statistics", wanted, more=more)]


def _check_queues(database: DriverConnection, options: ReadOptions) -> None:
    from penstock.errors import refusal  # noqa: PLC0415

    known = {name for (name,) in database.rows(_KNOWN)}
    for name in options.queues:
        if name not in known:
            raise refusal("PS002", f"queue '{name}' does not exist", "See penstock.list_queues().")


def _queue_queries(
    database: DriverConnection, options: ReadOptions, wanted: StructType
) -> list[str]:
    found = database.rows(_QUEUES, {"names": list(options.queues) or None}, lasting=True)
    return [
        _text(
            _CONTENTS,
            "queue",
            wanted,
            queue=sql.Literal(name),
            after=sql.Literal(low),
            through=sql.Literal(high),
            more=_owned(options),
        )
        for name, first, last in found
        if last is not None
        for low, high in _ranges(first, last, options.rows_per_partition)
    ]


def _letter_queries(
    database: DriverConnection, options: ReadOptions, wanted: StructType
) -> list[str]:
    [(first, last)] = database.rows(_LETTERS, lasting=True)
    more = sql.SQL(" ").join([_owned(options), _among("m.queue_name", options)])
    return [
        _text(
            _DEAD,
            "dead_letters",
            wanted,
            after=sql.Literal(low),
            through=sql.Literal(high),
            more=more,
        )
        for low, high in _ranges(first, last, options.rows_per_partition)
    ]


def _ranges(first: int, last: int, width: int) -> list[tuple[int, int]]:
    """Ids are used once, so a range of n ids holds at most n rows."""
    return [(low, min(low + width, last)) for low in range(first, last, width)]


def _owned(options: ReadOptions) -> sql.Composable:
    parts = [
        sql.SQL("and {} = {}").format(sql.Identifier("m", name), sql.Literal(value))
        for name, value in (("tenant_id", options.tenant), ("key", options.key))
        if value is not None
    ]
    return sql.SQL(" ").join(parts)


def _among(column: str, options: ReadOptions) -> sql.Composable:
    if not options.queues:
        return sql.SQL("")
    return sql.SQL("and {} = any ({})").format(
        sql.Identifier(*column.split(".")), sql.Literal(list(options.queues))
    )


def _text(template: sql.SQL, entity: str, wanted: StructType, **words: Any) -> str:
    queue = words.get("queue", sql.SQL(""))
    found = [columns.find(entity, name).sql for name in wanted.fieldNames()]
    selected = [sql.SQL(each).format(queue=queue) for each in found]
    return template.format(columns=sql.SQL(", ").join(selected), **words).as_string(None)
