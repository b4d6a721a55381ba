"""Batch reads of what is no log: queues, dead letters and statistics.

They change in place, so a DataFrame of them is bounded by ids but not frozen: a second action sees
where the same messages stand then.  Each message is told once, because each id is in one piece.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from psycopg import sql

from penstock.spark import columns

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from penstock.spark.connecting import Database
    from penstock.spark.options import ReadOptions

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


def queries(database: Database, options: ReadOptions, wanted: StructType) -> list[str]:
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


def _check_queues(database: Database, options: ReadOptions) -> None:
    from penstock.errors import refusal  # noqa: PLC0415

    known = {name for (name,) in database.rows(_KNOWN)}
    for name in options.queues:
        if name not in known:
            raise refusal("PS002", f"queue '{name}' does not exist", "See penstock.list_queues().")


def _queue_queries(database: Database, options: ReadOptions, wanted: StructType) -> list[str]:
    found = database.rows(_QUEUES, {"names": list(options.queues) or None})
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


def _letter_queries(database: Database, options: ReadOptions, wanted: StructType) -> list[str]:
    [(first, last)] = database.rows(_LETTERS)
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
    """Ids are used once, so a range of so many ids holds at most so many rows."""
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
