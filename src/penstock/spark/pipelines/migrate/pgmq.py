"""From pgmq: the messages of a queue's table, in one snapshot."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Unpack

import psycopg
from psycopg import sql
from psycopg.rows import dict_row

from penstock.errors import InvalidSetting, translated
from penstock.spark.pipelines.migrate.moving import move
from penstock.spark.pipelines.origin import as_json, marked
from penstock.spark.pipelines.run import RunOptions, started

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.spark.pipelines.summary import Summary

_PAGE = 5000


def migrate_pgmq(
    queue: str,
    topic: str | None = None,
    *,
    source: str | None = None,
    delete: bool = False,
    **run: Unpack[RunOptions],
) -> Summary:
    """Move the messages of a pgmq queue to a topic of the same name, or another.

    `source` is the database that pgmq is in, if it is another one.  With `delete` a message leaves
    pgmq once it is published; without, it stays there.
    """
    if not re.fullmatch(r"[A-Za-z0-9_]+", queue):
        raise InvalidSetting(f"{queue!r} can't be the name of a pgmq queue: letters, digits and _")
    with started("migrate-pgmq", run, source, queue, topic) as going:
        where = source or going.url
        rows = move(
            going,
            lambda: _rows(where, queue, topic or queue),
            after=(lambda ids: _delete(where, queue, ids)) if delete else None,
        )
        return going.summary(chosen=rows, to=topic or queue, deleted=delete)


def _table(queue: str) -> sql.Identifier:
    return sql.Identifier("pgmq", f"q_{queue.lower()}")


def _rows(url: str, queue: str, topic: str) -> Iterator[dict[str, Any]]:
    with translated(), psycopg.connect(url, row_factory=dict_row) as connection:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        if connection.execute(
            "select to_regclass(%s) as t", (f"pgmq.q_{queue.lower()}",)
        ).fetchone() == {"t": None}:
            raise InvalidSetting(
                f"there is no pgmq queue {queue}: the table pgmq.q_{queue.lower()} is missing"
            )
        with connection.cursor("penstock_migrate") as cursor:
            cursor.itersize = _PAGE
            cursor.execute(sql.SQL("select * from {} order by msg_id").format(_table(queue)))
            for row in cursor:
                yield _message(row, queue, topic)


def _message(row: dict[str, Any], queue: str, topic: str) -> dict[str, Any]:
    """A delay that is not over, or a claim that still runs, stays one: until then it is not due."""
    headers = row.get("headers")
    return {
        "source_id": str(row["msg_id"]),
        "topic": topic,
        "value": as_json(row["message"]),
        "key": (headers or {}).get("x-pgmq-group") if isinstance(headers, dict) else None,
        "headers": marked(
            as_json(headers) if isinstance(headers, dict) else None,
            original_id=row["msg_id"],
            original_topic=f"pgmq:{queue}",
            original_published_at=row["enqueued_at"].isoformat(),
            original_read_count=row["read_ct"],
        ),
        "deliver_after": row["vt"] if row["vt"] > datetime.now(UTC) else None,
    }


def _delete(url: str, queue: str, ids: list[str]) -> None:
    with translated(), psycopg.connect(url, autocommit=True) as connection:
        statement = sql.SQL("delete from {} where msg_id = any (%s::bigint[])").format(
            _table(queue)
        )
        connection.execute(statement, (ids,))
