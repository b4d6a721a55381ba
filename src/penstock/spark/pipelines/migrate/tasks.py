"""From `mq_tasks` on MySQL, MariaDB or PostgreSQL: the tasks that are still open."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Unpack

from penstock.spark.pipelines.migrate.moving import move
from penstock.spark.pipelines.moments import utc
from penstock.spark.pipelines.origin import as_json, marked
from penstock.spark.pipelines.run import Run, RunOptions, started

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.spark.pipelines.summary import Summary

_OPEN = ("queued", "leased")


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
        rows = move(going, lambda: _rows(going, source, table, prefix))
        return going.summary(chosen=rows)


def _rows(run: Run, url: str, table: str, prefix: str) -> Iterator[dict[str, Any]]:
    frame = (
        run.spark.read.format("penstock")
        .option("url", url)
        .option("entity", "tasks")
        .option("tasksTable", table)
        .load()
    )
    now = datetime.now(UTC)
    for row in (
        frame.where(frame["status"].isin(*_OPEN)).orderBy("created_at", "id").toLocalIterator()
    ):
        yield _message(row.asDict(), prefix, now)


def _message(row: dict[str, Any], prefix: str, now: datetime) -> dict[str, Any]:
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
