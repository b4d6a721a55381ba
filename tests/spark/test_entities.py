"""Batch reads of everything that is not the log."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from penstock import errors
from penstock.spark.source.data_source import PenstockDataSource
from penstock.tasks import TaskQueue, open_store
from penstock.tasks.options import StoreOptions
from tests.sql.test_streams import publish
from tests.tasks import mariadb
from tests.tasks.backends import Maria, Postgres

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.fixtures.cluster import Server
    from tests.fixtures.databases import Database
    from tests.spark.jobs import Jobs


def rows(url: str, entity: str, **options: Any) -> list[dict[str, Any]]:
    source = PenstockDataSource({"url": url, "entity": entity, **options})
    reader = source.reader(source.schema())
    return [
        row
        for task in reader.partitions()
        for part in reader.read(task)
        for row in part.to_pylist()
    ]


@pytest.fixture
def billing(db: Any) -> None:
    """Ten messages: two done, one claimed, one dead, one delayed, five waiting."""
    db.execute("select penstock.create_queue('billing', 'orders', max_delivery_attempts => 1)")
    db.execute("select penstock.create_queue('other')")
    publish(db, "orders", *range(1, 10))
    db.execute("select penstock.publish_message('orders', '10', now() + interval '1 hour')")
    db.execute("select * from penstock.consume_messages_batch('billing', 'me', 30, 4)")
    db.execute("select penstock.ack_messages('billing', array[1, 2], 'me')")
    db.execute("select penstock.nack_message('billing', 3, 'me', error => 'no funds')")


@pytest.mark.usefixtures("billing")
def test_queue(database: Database) -> None:
    found = rows(database.dsn, "queue", queue="billing")
    states = {row["message_id"]: row["state"] for row in found}
    assert states == {
        1: "done",
        2: "done",
        4: "claimed",
        10: "delayed",
        **dict.fromkeys(range(5, 10), "waiting"),
    }
    pieces = PenstockDataSource(
        {"url": database.dsn, "entity": "queue", "queue": "billing", "maxRecordsPerPartition": "4"}
    )
    assert len(pieces.reader(pieces.schema()).partitions()) == 3
    parted = rows(database.dsn, "queue", queue="billing", maxRecordsPerPartition="4")
    assert sorted(row["message_id"] for row in parted) == sorted(states)
    with pytest.raises(errors.UnknownQueue):
        rows(database.dsn, "queue", queue="gone")


@pytest.mark.usefixtures("billing")
def test_receipts(database: Database, db: Any) -> None:
    columns = "queue,message_id,attempt,outcome,error,key,published_at"
    found = sorted(
        rows(database.dsn, "receipts", columns=columns), key=lambda row: row["message_id"]
    )
    assert [(row["message_id"], row["attempt"], row["outcome"]) for row in found] == [
        (1, 1, "acked"),
        (2, 1, "acked"),
        (3, 1, "dead"),
    ]
    assert found[2]["error"] == "no funds"
    assert all(isinstance(row["published_at"], datetime) for row in found)
    assert rows(database.dsn, "receipts", queue="other") == []
    assert len(rows(database.dsn, "receipts", subscribe="orders", maxRecordsPerPartition="1")) == 3


@pytest.mark.usefixtures("billing")
def test_dead_letters(database: Database) -> None:
    [letter] = rows(database.dsn, "dead_letters")
    assert (letter["message_id"], letter["value"], letter["last_error"]) == (3, "3", "no funds")
    assert letter["attempts"] == 1
    assert rows(database.dsn, "dead_letters", queue="other") == []


@pytest.mark.usefixtures("billing")
def test_statistics(database: Database) -> None:
    found = {row["queue"]: row for row in rows(database.dsn, "statistics")}
    assert found.keys() == {"billing", "other"}
    counts = {
        name: found["billing"][name]
        for name in ("pending", "scheduled", "processing", "completed", "dead")
    }
    assert counts == {"pending": 6, "scheduled": 1, "processing": 1, "completed": 2, "dead": 1}


@pytest.mark.usefixtures("billing")
def test_entities_through_spark(jobs: Jobs) -> None:
    joined = (
        jobs.read(entity="receipts")
        .withColumnRenamed("message_id", "offset")
        .join(jobs.read(subscribe="orders"), "offset")
        .selectExpr("outcome", "value")
    )
    assert sorted(tuple(row) for row in joined.collect()) == [
        ("acked", "1"),
        ("acked", "2"),
        ("dead", "3"),
    ]


@pytest.fixture
def on_postgresql(server: Server) -> Iterator[str]:
    """The DSN of a task store with three tasks, one of them done."""
    yield from _filled(Postgres(server, "postgresql"))


@pytest.fixture
def on_mariadb() -> Iterator[str]:
    try:
        with mariadb.running("--innodb-flush-log-at-trx-commit=0") as maria:
            yield from _filled(Maria(maria))
    except mariadb.Missing as problem:
        pytest.skip(str(problem))


def _filled(backend: Any) -> Iterator[str]:
    place = backend.create()
    try:
        asyncio.run(_work(place.dsn))
        yield place.dsn
    finally:
        backend.drop(place)


async def _work(dsn: str) -> None:
    store = open_store(dsn, StoreOptions(attempt_log=True))
    await store.create_tables()
    await store.open()
    try:
        queue = TaskQueue(store)
        for number, tenant in ((1, "a"), (2, "a"), (3, "b")):
            await queue.enqueue("mail", f"payload {number}".encode(), tenant_id=tenant)
        [first] = await store.reserve("worker", topics=["mail"], limit=1)
        await store.ack(first.lease)
    finally:
        await store.close()


def test_tasks_on_postgresql(on_postgresql: str) -> None:
    check_tasks(on_postgresql)


def test_tasks_on_mariadb(on_mariadb: str) -> None:
    check_tasks(on_mariadb)


def check_tasks(tasks: str) -> None:
    found = rows(tasks, "tasks")
    assert sorted(row["status"] for row in found) == ["done", "queued", "queued"]
    assert sorted(row["payload"] for row in found) == [f"payload {n}".encode() for n in (1, 2, 3)]
    assert all(row["created_at"].tzinfo is not None for row in found)
    assert all(abs(row["created_at"] - datetime.now(UTC)).days == 0 for row in found)
    assert len(rows(tasks, "tasks", tenant="a")) == 2
    assert len(rows(tasks, "tasks", topic="mail,other", maxRecordsPerPartition="1")) == 3
    [attempt] = rows(tasks, "task_attempts")
    assert (attempt["attempt_no"], attempt["success"]) == (1, True)
    with pytest.raises(Exception, match="can't be a table"):
        rows(tasks, "tasks", tasksTable="mq_tasks; drop table x")
