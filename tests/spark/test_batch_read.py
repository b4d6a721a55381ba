"""Batch reads of the log: a stable view, bounded and in pieces."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql.types import BinaryType

from penstock.errors import LogTruncated
from penstock.spark.source.data_source import PenstockDataSource
from tests.spark.jobs import structure
from tests.sql.test_streams import empty_log, offset, publish

if TYPE_CHECKING:
    from tests.fixtures.databases import Connect, Database
    from tests.spark.jobs import Jobs


@pytest.fixture(autouse=True)
def topics(db: Any) -> None:
    for name in ("orders", "parcels"):
        db.execute("select penstock.create_topic(%s)", (name,))


def rows(database: Database, schema: str | None = None, **options: Any) -> list[dict[str, Any]]:
    """Read as Spark's tasks do, without Spark around it."""
    source = PenstockDataSource({"url": database.dsn, **options})
    wanted = source.schema() if schema is None else structure(schema)
    reader = source.reader(wanted)
    return [
        row
        for task in reader.partitions()
        for batch in reader.read(task)
        for row in batch.to_pylist()
    ]


def values(database: Database, **options: Any) -> list[int]:
    return sorted(int(row["value"]) for row in rows(database, **options))


def test_columns_have_the_names_that_a_kafka_job_asks_for(jobs: Jobs, db: Any) -> None:
    db.execute(
        "select penstock.publish_message('orders', '{\"n\": 1}', key => 'k', "
        'headers => \'{"a": "b", "c": 1}\', tenant_id => \'acme\', priority => 3)'
    )
    frame = jobs.read(subscribe="orders", includeHeaders="true")
    [row] = frame.selectExpr(
        "CAST(key AS STRING) key",
        "CAST(value AS STRING) value",
        "topic",
        "partition",
        "offset",
        "timestamp",
        "timestampType",
        "headers",
        "tenant_id",
        "priority",
    ).collect()
    assert row.timestamp.year >= 2026
    assert [(each.key, bytes(each.value)) for each in row.headers] == [("a", b"b"), ("c", b"1")]
    assert row[:5] == ("k", '{"n": 1}', "orders", 0, 1)
    assert (row.timestampType, row.tenant_id, row.priority) == (0, "acme", 3)


def test_filter_of_one_action_does_not_stay_for_the_next(jobs: Jobs, db: Any) -> None:
    publish(db, "orders", *range(1, 101))
    frame = jobs.read(subscribe="orders")
    assert frame.where("offset <= 30").count() == 30
    assert frame.count() == 100


def test_frame_is_a_stable_view(jobs: Jobs, db: Any, connect: Connect) -> None:
    slow = connect(autocommit=False)
    publish(slow, "orders", 1)
    publish(db, "orders", 2)
    frame = jobs.read(subscribe="orders")
    assert [row.value for row in frame.collect()] == ["2"]
    slow.commit()
    publish(db, "orders", 3)
    assert [row.value for row in frame.collect()] == ["2"]
    assert jobs.read(subscribe="orders").count() == 3


def test_read_is_cut_into_pieces_of_bounded_size(jobs: Jobs, db: Any) -> None:
    publish(db, "orders", *range(100))
    frame = jobs.read(subscribe="orders", maxRecordsPerPartition=30)
    sizes = [row["count"] for row in frame.groupBy(frame_part()).count().collect()]
    assert (sum(sizes), len(sizes)) == (100, 4)
    assert max(sizes) <= 30
    frame = jobs.read(subscribe="orders", minPartitions=3)
    assert frame.select(frame_part()).distinct().count() == 3


def frame_part() -> Any:
    from pyspark.sql.functions import spark_partition_id

    return spark_partition_id()


def test_empty_topic_is_an_empty_frame(jobs: Jobs) -> None:
    assert jobs.read(subscribe="orders").collect() == []


def test_topics_times_tenants_and_keys(database: Database, db: Any) -> None:
    publish(db, "orders", 1)
    publish(db, "parcels", 2)
    db.execute("select penstock.publish_message('orders', '3', tenant_id => 'a', key => 'k')")
    moment = db.execute("select clock_timestamp()").fetchone()[0]
    publish(db, "orders", 4)
    assert values(database, subscribe="orders, parcels") == [1, 2, 3, 4]
    assert values(database, subscribePattern="par.*") == [2]
    assert values(database, path="orders", tenant="a") == [3]
    assert values(database, path="orders", key="k") == [3]
    assert values(database, path="orders", since=moment.isoformat()) == [4]
    millis = str(int(moment.timestamp() * 1000) + 1)
    assert 4 not in values(database, path="orders", endingTimestamp=moment.isoformat())
    assert 1 in values(database, path="orders", until=millis)


def test_between_two_offsets(database: Database, db: Any) -> None:
    publish(db, "orders", 1)
    first = json.dumps(offset(db))
    publish(db, "orders", 2)
    second = json.dumps(offset(db))
    publish(db, "orders", 3)
    assert values(database, path="orders", startingOffsets=first, endingOffsets=second) == [2]
    assert values(database, path="orders", startingOffsets=first) == [2, 3]
    assert values(database, path="orders", endingOffsets=second) == [1, 2]
    assert values(database, path="orders", startingOffsets='{"orders": 3}') == [3]


def test_a_part_of_a_stream_is_read_in_order_and_whole_or_not_at_all(
    database: Database, db: Any
) -> None:
    start = json.dumps(offset(db))
    publish(db, "orders", *range(50))
    part = {"path": "orders", "startingOffsets": start, "maxRecordsPerPartition": "7"}
    assert [int(row["value"]) for row in rows(database, **part)] == list(range(50))
    empty_log(db)
    with pytest.raises(LogTruncated):
        rows(database, **part)
    assert rows(database, **part, failOnDataLoss="false") == []
    assert values(database, path="orders") == []


def test_chosen_columns_and_a_schema_of_the_users_own(database: Database, db: Any) -> None:
    publish(db, "orders", 7)
    assert rows(database, path="orders", columns="id, payload") == [{"id": 1, "payload": "7"}]
    [row] = rows(database, "value binary, offset long, priority long", path="orders")
    assert row == {"value": b"7", "offset": 1, "priority": 0}


def test_first_batch_has_the_declared_schema(database: Database, db: Any) -> None:
    from pyspark.sql.types import LongType, StructField, StructType, TimestampType

    publish(db, "orders", 7)
    wanted = StructType(
        [
            StructField("offset", LongType(), False),
            StructField("timestamp", TimestampType(), True),
            StructField("value", BinaryType(), False),
        ]
    )
    reader = PenstockDataSource({"url": database.dsn, "path": "orders"}).reader(wanted)
    [batch] = [batch for task in reader.partitions() for batch in reader.read(task)]
    assert [(field.name, str(field.type), field.nullable) for field in batch.schema] == [
        ("offset", "int64", False),
        ("timestamp", "timestamp[us, tz=UTC]", True),
        ("value", "binary", False),
    ]


def test_secrets_are_not_in_the_plan(jobs: Jobs, db: Any, capsys: Any) -> None:
    url = jobs.url.replace("user=penstock", "user=penstock password=s3cret")
    frame = (
        jobs.spark.read.format("penstock")
        .options(url=url, password="s3cret", subscribe="orders")
        .load()
    )
    frame.explain(extended=True)
    shown = capsys.readouterr().out
    assert "penstock" in shown
    assert "s3cret" not in shown
    assert jobs.url.split()[1] not in shown


def test_no_task_holds_the_horizon_for_long(database: Database, db: Any) -> None:
    """One COPY per task, and tasks are small: this is what bounds how long vacuum waits."""
    publish(db, "orders", *range(1000))
    source = PenstockDataSource(
        {"url": database.dsn, "path": "orders", "maxRecordsPerPartition": "100"}
    )
    tasks = source.reader(source.schema()).partitions()
    assert len(tasks) == 10
