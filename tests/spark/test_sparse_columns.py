"""Columns that hardly any message uses are left out, and what is in them is found all the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from penstock.errors import LogTruncated
from penstock.spark.source import sparse_columns
from penstock.spark.source.data_source import PenstockDataSource
from tests.spark.jobs import structure
from tests.sql.test_streams import publish

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.fixtures.databases import Database

UNUSUAL = (
    'headers => \'{"a": "b"}\'',
    "priority => 7, key => 'k'",
    "deliver_after => now() + interval '1 hour', expires_at => now() + interval '1 day'",
    "correlation_id => 'c', tenant_id => 't'",
)


@pytest.fixture(autouse=True)
def unusual_messages(db: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A few messages that use everything, below many that use nothing."""
    monkeypatch.setattr(sparse_columns, "_ENOUGH", 1)
    db.execute("select penstock.create_topic('orders')")
    for number, named in enumerate(UNUSUAL):
        publish(db, "orders", number)
        db.execute(f"select penstock.publish_message('orders', '{number}', {named})")
    publish(db, "orders", *range(2000))


def tasks(database: Database, schema: str | None = None, **options: Any) -> tuple[Any, list[Any]]:
    source = PenstockDataSource({"url": database.dsn, "path": "orders", **options})
    reader = source.reader(source.schema() if schema is None else structure(schema))
    return reader, list(reader.partitions())


def rows(reader: Any, found: list[Any]) -> list[dict[str, Any]]:
    return [row for task in found for batch in reader.read(task) for row in batch.to_pylist()]


@pytest.mark.parametrize(
    ("schema", "options"),
    [
        (None, {}),
        (None, {"includeHeaders": "true"}),
        (None, {"columns": "priority, tenant_id"}),
        (None, {"minPartitions": "3"}),
        ("value string, key binary, headers binary, priority long, expires_at timestamp", {}),
    ],
)
def test_guess_changes_nothing(
    database: Database, monkeypatch: pytest.MonkeyPatch, schema: str | None, options: Any
) -> None:
    reader, guessed = tasks(database, schema, **options)
    monkeypatch.setattr(sparse_columns, "_ENOUGH", 10**9)
    _, plain = tasks(database, schema, **options)
    assert all(task.sparse for task in guessed)
    assert not any(task.sparse for task in plain)
    found = rows(reader, guessed)
    assert len(found) == 2008
    assert found == rows(reader, plain)


def test_what_is_used_is_asked_for_directly(database: Database, db: Any) -> None:
    db.execute("select penstock.publish_message('orders', '1', headers => '{\"a\": 1}')")
    _reader, [task] = tasks(database)
    assert task.sparse is not None
    assert "headers" not in task.sparse.names
    assert {"key", "priority", "tenant_id"} < set(task.sparse.names)
    # One alone would only make room for the column that marks it.
    _reader, [task] = tasks(database, columns="value, priority, headers")
    assert task.sparse is None


def test_guess_reads_a_few_messages_only(db: Any) -> None:
    """It is part of planning, which nothing else can be done beside."""
    query = sparse_columns._SAMPLE.format(filled="bool_or(m.headers is not null)")
    given = {"topic_ids": [1], "last": 2008}
    publish(db, "orders", *range(20_000))
    db.execute("analyze penstock_data.messages")
    [(plan,)] = db.execute(f"explain (analyze, format json) {query}", given).fetchall()
    assert sum(scanned(plan[0]["Plan"])) <= 2000


def scanned(node: dict[str, Any]) -> Iterator[int]:
    """Messages that each part of a plan has looked at."""
    if node.get("Relation Name", "").startswith("messages_"):
        yield round(node["Actual Rows"] + node.get("Rows Removed by Filter", 0))
    for part in node.get("Plans", []):
        yield from scanned(part)


def test_stream_gives_them_in_order(stream: Callable[..., Any]) -> None:
    reader = stream(subscribe="orders", startingOffsets="earliest")
    start = reader.initialOffset()
    found = reader.partitions(start, reader._log.end())
    assert all(task.sparse for task in found)
    read = rows(reader, found)
    assert [row["offset"] for row in read] == sorted(row["offset"] for row in read)
    assert [row["priority"] for row in read if row["priority"]] == [7]
    assert [row["headers"] for row in read if row["headers"]] == ['{"a": "b"}']


def test_removed_messages_are_not_taken_for_usual_ones() -> None:
    columns = sparse_columns.SparseColumns(("headers", "priority"), "m.topic_id = 1")
    gone = pa.table({"id": pa.array([], pa.int64()), "headers": [], "priority": []})
    with pytest.raises(LogTruncated):
        columns.fill(pa.array([None, 5], pa.int64()), lambda _query: gone)
