"""migrate: messages of pgmq and open tasks of a task store into topics, once.

Every migration keeps the rows in its state first, and publishes them from there.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Unpack

import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
from psycopg import sql
from psycopg.rows import dict_row

from penstock.errors import InvalidSetting, translated
from penstock.spark.pipelines import engine_calls, publication
from penstock.spark.pipelines.failures import PipelineFailed
from penstock.spark.pipelines.message_origin import as_json, marked
from penstock.spark.pipelines.run import Run, RunOptions, started, utc
from penstock.spark.pipelines.selection import Selection, frame_of
from penstock.spark.pipelines.state import Chunk, Ledger

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from penstock.postgres._sync.connections import TimedConnection
    from penstock.spark.pipelines.run import Summary

SCHEMA = pa.schema(
    [
        ("source_id", pa.string()),
        ("topic", pa.string()),
        ("value", pa.string()),
        ("key", pa.string()),
        ("headers", pa.string()),
        ("priority", pa.int32()),
        ("deliver_after", pa.timestamp("us", tz="UTC")),
        ("tenant_id", pa.string()),
    ]
)
CHUNK = 20_000

Done = Callable[[list[str]], None]
_PAGE = 5000
_OPEN_TASKS = ("queued", "leased")


def move(
    run: Run,
    rows: Callable[[], Iterable[dict[str, Any]]],
    *,
    after: Done | None = None,
) -> int:
    """Choose the rows if that was not done, and publish them by chunks.

    `after` gets the ids of a chunk that is published; it may be called again after a crash.
    """
    chosen = Selection(run, CHUNK)
    if chosen.rows is None:
        run.teller.tell(phase="reading")
        chosen.fill(rows(), SCHEMA)
    app = Ledger(run.state).app

    def publish(chunk: Chunk, path: Path) -> int:
        publish_file(run, path, app, chunk.number)
        if after is not None:
            after(pq.read_table(path, columns=["source_id"])["source_id"].to_pylist())
        return int(pq.read_metadata(path).num_rows)

    chosen.send(publish)
    return chosen.rows or 0


def publish_file(run: Run, path: Path, app: str, number: int) -> None:
    """Publish a file of rows; what the database would refuse stops it with the reason."""
    frame = frame_of(run, path)
    topics = pq.read_table(path, columns=["topic"])["topic"].unique().to_pylist()
    engine_calls.ensure_topics(run.url, topics)
    checked = publication.check(frame)
    try:
        _refuse(checked)
        publication.publish(run, checked.good, app, number)
    finally:
        checked.forget()


def _refuse(checked: publication.Checked) -> None:
    bad = checked.bad.select("source_id", "_reason").first()
    if bad is not None:
        raise PipelineFailed(f"message {bad['source_id']} can't be published: {bad['_reason']}")


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
            lambda: _pgmq_rows(where, queue, topic or queue),
            after=(lambda ids: _pgmq_delete(where, queue, ids)) if delete else None,
        )
        return going.summary(chosen=rows, to=topic or queue, deleted=delete)


def _pgmq_table(queue: str) -> sql.Identifier:
    return sql.Identifier("pgmq", f"q_{queue.lower()}")


def _pgmq_connection(url: str, *, autocommit: bool) -> TimedConnection:
    return engine_calls.open_connection(url, autocommit=autocommit, row_factory=dict_row)


def _pgmq_rows(url: str, queue: str, topic: str) -> Iterator[dict[str, Any]]:
    with translated(), _pgmq_connection(url, autocommit=False) as connection:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        if connection.execute(
            "select to_regclass(%s) as t", (f"pgmq.q_{queue.lower()}",)
        ).fetchone() == {"t": None}:
            raise InvalidSetting(
                f"there is no pgmq queue {queue}: the table pgmq.q_{queue.lower()} is missing"
            )
        with connection.cursor("penstock_migrate") as cursor:
            cursor.itersize = _PAGE
            cursor.execute(sql.SQL("select * from {} order by msg_id").format(_pgmq_table(queue)))
            for row in cursor:
                yield _pgmq_message(row, queue, topic)


def _pgmq_message(row: dict[str, Any], queue: str, topic: str) -> dict[str, Any]:
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


def _pgmq_delete(url: str, queue: str, ids: list[str]) -> None:
    with translated(), _pgmq_connection(url, autocommit=True) as connection:
        statement = sql.SQL("delete from {} where msg_id = any (%s::bigint[])").format(
            _pgmq_table(queue)
        )
        connection.execute(statement, (ids,))


def migrate_tasks(
    source: str,
    *,
    prefix: str = "",
    table: str = "mq_tasks",
    **run: Unpack[RunOptions],
) -> Summary:
    """Publish every open task to the topic of its own name, with `prefix` in front of it.

    `source` is the DSN of the task store.  A leased task is due again when its lease ends.  The
    tasks stay where they are: stop their workers first, and purge the table when all is well.
    """
    with started("migrate-tasks", run, source, prefix, table) as going:
        rows = move(going, lambda: _task_rows(going, source, table, prefix))
        return going.summary(chosen=rows)


def _task_rows(run: Run, url: str, table: str, prefix: str) -> Iterator[dict[str, Any]]:
    frame = (
        run.spark.read.format("penstock")
        .option("url", url)
        .option("entity", "tasks")
        .option("tasksTable", table)
        .load()
    )
    now = datetime.now(UTC)
    for row in (
        frame.where(frame["status"].isin(*_OPEN_TASKS))
        .orderBy("created_at", "id")
        .toLocalIterator()
    ):
        yield _task_message(row.asDict(), prefix, now)


def _task_message(row: dict[str, Any], prefix: str, now: datetime) -> dict[str, Any]:
    """A task's priorities run from 0 to 40 with 20 as usual; a message's usual one is 0."""
    due = row["lease_until"] if row["status"] == "leased" else row["available_at"]
    due = None if due is None else utc(due)
    return {
        "source_id": row["id"],
        "topic": f"{prefix}{row['topic']}",
        "value": as_json(row["payload"]),
        "key": None,
        "headers": marked(
            row["meta"],
            original_id=row["id"],
            original_topic=f"mq_tasks:{row['topic']}",
            original_published_at=utc(row["created_at"]).isoformat() if row["created_at"] else None,
            original_attempts=row["attempts"],
        ),
        "priority": row["priority"] - 20,
        "deliver_after": due if due is not None and due > now else None,
        "tenant_id": row["tenant_id"],
    }
