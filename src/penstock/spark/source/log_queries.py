"""The queries of a read: one for each piece of the log.

ADBC copies in binary (`COPY … TO STDOUT`), which knows no parameters, so values stand in the
statement as literals that psycopg has quoted.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from psycopg import sql
from pyspark.sql.datasource import InputPartition

from penstock.spark.source import columns
from penstock.spark.source.sparse_columns import SparseColumns

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from datetime import datetime

    from pyspark.sql.types import StructType

    from penstock.spark.source.message_log import Piece, Scope
    from penstock.spark.source.offsets import Offset, Window

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


@dataclass(frozen=True)
class ReadTask(InputPartition):
    """What one task runs."""

    query: str
    check: tuple[str, str] | None = None
    """Topics and offset, to check after the last row that no message was removed meanwhile."""
    same: tuple[tuple[str, str | int], ...] = ()
    """Columns that have one value in all rows, which the database does not send."""
    sparse: SparseColumns | None = None
    """Columns that hardly any row has a value in."""


@dataclass(frozen=True, slots=True)
class Filters:
    """Which rows of a window are wanted."""

    since: datetime | None = None
    until: datetime | None = None
    tenant: str | None = None
    key: str | None = None


@dataclass(frozen=True, slots=True)
class Read:
    """What the tasks of one read have in common."""

    entity: str
    wanted: StructType
    scope: Scope
    window: Window
    filters: Filters
    check: tuple[str, str] | None = None
    sparse: tuple[str, ...] = ()
    """Columns that hardly any row has a value in, by their names in the schema."""

    def task(self, piece: Piece, *, ordered: bool = False) -> ReadTask:
        """The task for one piece; messages in the order of their ids when that is asked for."""
        if self.entity == "receipts":
            return ReadTask(_receipt_query(self, piece), self.check)
        same = same_everywhere(self.wanted, self.scope)
        left_out = {*same, *self.sparse}
        names = [name for name in self.wanted.fieldNames() if name not in left_out]
        sparse = SparseColumns.among(
            self.sparse, f"m.topic_id {_among(self.scope.topic_ids).as_string(None)}"
        )
        marks = [sparse.mark] if sparse else []
        selected = _selected("messages", names, marks)
        query = _messages(sql.SQL("m.*") if ordered else selected, self, piece)
        if ordered:
            query = _ORDERED.format(columns=selected, messages=query)
        return ReadTask(query.as_string(None), self.check, tuple(same.items()), sparse)


def same_everywhere(wanted: StructType, scope: Scope) -> dict[str, str | int]:
    """Columns with one value in all rows of a read of messages."""
    known: dict[str, str | int] = {"partition": 0, "timestampType": 0}
    if len(scope.topics) == 1:
        known["topic"] = scope.topics[0][1]
    found = {name: columns.find("messages", name).name for name in wanted.fieldNames()}
    return {name: known[column] for name, column in found.items() if column in known}


def _messages(selected: sql.Composable, read: Read, piece: Piece) -> sql.Composable:
    """The messages of one piece of a window; the late ones are looked up by their transactions."""
    window = read.window
    shared = {
        "columns": selected,
        "topics": _among(read.scope.topic_ids),
        "through": sql.Literal(piece.through),
        "more": _conditions(window, read.filters, "m.published_at", owner="m"),
    }
    query = _MESSAGES.format(
        **shared, **_bounds(window), low=sql.Literal(max(piece.after, window.from_id))
    )
    if not window.late:
        return query
    late = _LATE.format(**shared, after=sql.Literal(piece.after), late=_xids(window.late))
    return sql.SQL(" union all ").join([query, late])


def _receipt_query(read: Read, piece: Piece) -> str:
    """The receipts of one piece of a window."""
    window = read.window
    return _RECEIPTS.format(
        columns=_selected("receipts", read.wanted.fieldNames()),
        message=_MESSAGE if _wants_message(read.wanted, read.filters) else sql.SQL(""),
        queues=_among(read.scope.queue_ids),
        after=_xid(piece.after),
        through=_xid(piece.through),
        late=_xids(window.late),
        more=_conditions(window, read.filters, "m.ended_at", owner="l"),
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


def _selected(entity: str, names: Collection[str], more: Collection[str] = ()) -> sql.Composable:
    # Without any column the rows could not be counted.
    found = [*(columns.find(entity, name).sql for name in names), *more] or ["m.id"]
    return sql.SQL(", ").join(sql.SQL(each) for each in found)


def _among(numbers: Sequence[int]) -> sql.Composable:
    # With `=` instead of `any` the planner uses the order of the index.
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


def kept(scope: Scope, start: Offset) -> tuple[str, str]:
    """What a task checks after its last row: the topics, and where its stream begins."""
    return "{" + ",".join(map(str, scope.topic_ids)) + "}", json.dumps(start)
