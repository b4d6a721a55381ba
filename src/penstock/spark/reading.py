"""One task's rows: a query for its piece of the log, run through ADBC, and made to fit the schema.

ADBC copies in binary (`COPY … TO STDOUT`), which knows no parameters, so values stand in the
statement as literals that psycopg has quoted.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from psycopg import sql
from pyspark.sql.datasource import InputPartition

from penstock.spark import columns
from penstock.spark.connecting import bulk

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence
    from datetime import datetime

    from pyspark.sql.types import StructType

    from penstock.spark.log import Piece, Scope
    from penstock.spark.offsets import Offset, Window

_MESSAGES = sql.SQL("""
select {columns} from penstock.log m
where m.topic_id {topics} and m.id > {low} and m.id <= {through}
  and m.xid >= {first}::xid8 and m.xid < {last}::xid8 {open} {more}
""")
_LATE = sql.SQL("""
select {columns} from penstock.log m
where m.topic_id {topics} and m.id > {after} and m.id <= {through}
  and m.xid = any ({late}::xid8[]) {more}
""")
_ORDERED = sql.SQL("select {columns} from ({messages}) m order by m.id")
_RECEIPTS = sql.SQL("""
select {columns} from penstock.receipt_log m {message}
where m.queue_id {queues} and m.xid > {after}::xid8 and m.xid <= {through}::xid8
  and (m.xid = any ({late}::xid8[])
       or m.xid >= {first}::xid8 and m.xid < {last}::xid8 {open}) {more}
""")
_MESSAGE = sql.SQL("""
left join lateral (
    select l.published_at, l.deliver_after, l.key, l.tenant_id, l.priority
    from penstock.log l where l.topic_id = m.topic_id and l.id = m.message_id
) l on true
""")
_CHECK_KEPT = "select penstock.check_kept($1::text::bigint[], $2::text::jsonb)"


@dataclass(frozen=True)
class Task(InputPartition):
    """What one task runs."""

    query: str
    check: tuple[str, str] | None = None
    """Topics and offset: afterwards, whether everything was still there."""
    same: tuple[tuple[str, str | int], ...] = ()
    """Columns that have one value in all rows: the database need not send it again and again."""


@dataclass(frozen=True, slots=True)
class Filters:
    """Which rows are wanted, beyond where they lie."""

    since: datetime | None = None
    until: datetime | None = None
    tenant: str | None = None
    key: str | None = None


def same_everywhere(entity: str, wanted: StructType, scope: Scope) -> dict[str, str | int]:
    """Columns with one value in all rows of a read."""
    if entity != "messages":
        return {}
    known: dict[str, str | int] = {"partition": 0, "timestampType": 0}
    if len(scope.topics) == 1:
        known["topic"] = scope.topics[0][1]
    found = {name: columns.find(entity, name).name for name in wanted.fieldNames()}
    return {name: known[column] for name, column in found.items() if column in known}


def message_query(
    wanted: StructType, scope: Scope, window: Window, piece: Piece, filters: Filters
) -> str:
    """The messages of one piece of a window; the late ones are looked up by their transactions."""
    selected = _selected("messages", wanted, same_everywhere("messages", wanted, scope))
    return _messages(selected, scope, window, piece, filters).as_string(None)


def ordered_message_query(
    wanted: StructType, scope: Scope, window: Window, piece: Piece, filters: Filters
) -> str:
    """The same in the order of their ids, as streams give them."""
    selected = _selected("messages", wanted, same_everywhere("messages", wanted, scope))
    inner = _messages(sql.SQL("m.*"), scope, window, piece, filters)
    return _ORDERED.format(columns=selected, messages=inner).as_string(None)


def _messages(
    selected: sql.Composable, scope: Scope, window: Window, piece: Piece, filters: Filters
) -> sql.Composable:
    shared = {
        "columns": selected,
        "topics": _among(scope.topic_ids),
        "through": sql.Literal(piece.through),
        "more": _conditions(window, filters, "m.published_at", owner="m"),
    }
    query = _MESSAGES.format(
        **shared, **_bounds(window), low=sql.Literal(max(piece.after, window.from_id))
    )
    if not window.late:
        return query
    late = _LATE.format(**shared, after=sql.Literal(piece.after), late=_xids(window.late))
    return sql.SQL(" union all ").join([query, late])


def receipt_query(
    wanted: StructType, scope: Scope, window: Window, piece: Piece, filters: Filters
) -> str:
    """The receipts of one piece of a window."""
    return _RECEIPTS.format(
        columns=_selected("receipts", wanted),
        message=_MESSAGE if _wants_message(wanted, filters) else sql.SQL(""),
        queues=_among(scope.queue_ids),
        after=_xid(piece.after),
        through=_xid(piece.through),
        late=_xids(window.late),
        more=_conditions(window, filters, "m.ended_at", owner="l"),
        **_bounds(window),
    ).as_string(None)


def _wants_message(wanted: StructType, filters: Filters) -> bool:
    asked = {columns.find("receipts", name).sql for name in wanted.fieldNames()}
    owned = filters.tenant is not None or filters.key is not None
    return owned or any(each.startswith("l.") for each in asked)


def _bounds(window: Window) -> dict[str, sql.Composable]:
    return {
        "first": _xid(window.start.xmax),
        "last": _xid(window.end.xmax),
        "open": _not_among(sorted(window.end.open)),
    }


def _selected(entity: str, wanted: StructType, left_out: Collection[str] = ()) -> sql.Composable:
    names = [name for name in wanted.fieldNames() if name not in left_out]
    # Something must be asked for, or there would be no rows to count.
    found = [columns.find(entity, name).sql for name in names] or ["m.id"]
    return sql.SQL(", ").join(sql.SQL(each) for each in found)


def _among(numbers: Sequence[int]) -> sql.Composable:
    # A single one is no list for the planner: then the index gives its rows in order.
    if len(numbers) == 1:
        return sql.SQL("= {}").format(sql.Literal(numbers[0]))
    listed = "{" + ",".join(map(str, numbers)) + "}"
    return sql.SQL("= any ({}::bigint[])").format(sql.Literal(listed))


def _not_among(numbers: Sequence[int]) -> sql.Composable:
    if not numbers:
        return sql.SQL("")
    return sql.SQL("and m.xid <> all ({}::xid8[])").format(_xids(numbers))


def _xid(number: int) -> sql.Composable:
    return sql.Literal(str(number))


def _xids(numbers: Sequence[int]) -> sql.Composable:
    return sql.Literal("{" + ",".join(map(str, numbers)) + "}")


def _conditions(window: Window, filters: Filters, time: str, *, owner: str) -> sql.Composable:
    parts: list[sql.Composable] = []

    def add(template: str, value: Any) -> None:
        parts.append(sql.SQL("and " + template).format(sql.Literal(value)))

    for since in (window.since, filters.since and filters.since.isoformat()):
        if since is not None:
            add(time + " >= {}::timestamptz", since)
    if filters.until is not None:
        add(time + " < {}::timestamptz", filters.until.isoformat())
    if filters.tenant is not None:
        add(owner + ".tenant_id = {}", filters.tenant)
    if filters.key is not None:
        add(owner + ".key = {}", filters.key)
    if window.floors:
        add("m.id >= coalesce(({}::jsonb ->> m.topic)::bigint, 0)", json.dumps(dict(window.floors)))
    return sql.SQL(" ").join(parts)


def run(info: str, task: Task, wanted: StructType) -> Iterator[pa.RecordBatch]:
    """The rows of a task, batch by batch, with the very schema that Spark expects."""
    schema = columns.arrow_schema(wanted)
    with bulk(info) as conn, conn.cursor() as cursor:
        cursor.execute(task.query)
        for batch in cursor.fetch_record_batch():
            if batch.num_rows:
                yield fitted(batch, schema, dict(task.same))
        if task.check is not None:
            cursor.execute(_CHECK_KEPT, list(task.check))
            cursor.fetchall()


def fitted(
    batch: pa.RecordBatch, schema: pa.Schema, same: Mapping[str, str | int]
) -> pa.RecordBatch:
    """All columns in the declared types."""
    sent = iter(batch.columns)
    arrays = [
        pa.repeat(pa.scalar(same[field.name]), batch.num_rows).cast(field.type)
        if field.name in same
        else _cast(next(sent), field.type)
        for field in schema
    ]
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


def kept(scope: Scope, start: Offset) -> tuple[str, str]:
    """What a task asks about when it has read everything."""
    return "{" + ",".join(map(str, scope.topic_ids)) + "}", json.dumps(start)
