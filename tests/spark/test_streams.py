"""Streams through Spark itself: from topic to topic, restarted, stopped and started again."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.fixtures.patience import eventually_sync
from tests.sql.test_streams import lag, publish

if TYPE_CHECKING:
    from tests.spark.jobs import Jobs


@pytest.fixture(autouse=True)
def topics(db: Any) -> None:
    for name in ("orders", "copies"):
        db.execute("select penstock.create_topic(%s)", (name,))


def copies(db: Any) -> list[int]:
    found = db.execute("select payload from penstock.log where topic = 'copies' order by payload")
    return [payload for (payload,) in found]


def from_orders(jobs: Jobs, **options: Any) -> Any:
    asked = {"startingOffsets": "earliest", "group": "copy", **options}
    return jobs.stream(subscribe="orders", **asked).selectExpr("key", "value")


def test_topic_to_topic_exactly_once_over_restarts(jobs: Jobs, db: Any) -> None:
    publish(db, "orders", *range(10))
    query = jobs.copy(from_orders(jobs, maxOffsetsPerTrigger=4), "one", topic="copies")
    assert [each.numInputRows for each in query.recentProgress] == [4, 4, 2]
    # No commit comes for the last batch of such a run; the group knows all the same.
    assert lag(db, "copy") == 0
    publish(db, "orders", 10, 11)
    jobs.copy(from_orders(jobs), "one", topic="copies")
    assert copies(db) == list(range(12))
    ledger = db.execute(
        "select batch_id, row_count from penstock_data.writes order by 1"
    ).fetchall()
    assert ledger == [(0, 4), (1, 4), (2, 2), (3, 2)]


def test_topic_added_to_a_checkpoint_is_read_from_its_beginning(jobs: Jobs, db: Any) -> None:
    db.execute("select penstock.create_topic('returns')")
    publish(db, "orders", 1, 2)
    publish(db, "returns", *range(10, 15))
    jobs.copy(from_orders(jobs), "one", topic="copies")
    publish(db, "returns", 15)
    both = jobs.stream(subscribe="orders,returns", startingOffsets="earliest", group="copy")
    jobs.copy(both.selectExpr("key", "value"), "one", topic="copies")
    assert copies(db) == [1, 2, *range(10, 16)]
    assert (lag(db, "copy"), lag(db, "copy:returns")) == (0, 0)


def test_last_entry_of_the_commit_log_may_be_lost(jobs: Jobs, db: Any) -> None:
    publish(db, "orders", *range(6))
    jobs.copy(from_orders(jobs, maxOffsetsPerTrigger=3), "one", topic="copies")
    for entry in (jobs.folder / "one" / "commits").glob("*1*"):
        entry.unlink()
    publish(db, "orders", 6)
    jobs.copy(from_orders(jobs, maxOffsetsPerTrigger=3), "one", topic="copies")
    assert copies(db) == list(range(7))


def test_first_batch_runs_again_from_the_same_start(jobs: Jobs, db: Any) -> None:
    """Spark keeps no start of batch 0; with `latest` it must not move."""
    publish(db, "orders", 1)
    frame = from_orders(jobs, startingOffsets="latest")
    jobs.copy(frame, "one", topic="copies")
    publish(db, "orders", 2, 3)
    jobs.copy(frame, "one", topic="copies")
    assert copies(db) == [2, 3]
    for entry in (jobs.folder / "one" / "commits").iterdir():
        entry.unlink()
    db.execute("delete from penstock_data.writes")
    db.execute(
        "delete from penstock_data.messages m using penstock.topics t "
        "where t.id = m.topic_id and t.name = 'copies'"
    )
    jobs.copy(frame, "one", topic="copies")
    assert copies(db) == [2, 3]


def test_running_stream_is_woken_and_stops(jobs: Jobs, db: Any) -> None:
    frame = from_orders(jobs)
    query = (
        frame.writeStream.format("penstock")
        .options(url=jobs.url, topic="copies", checkpointLocation=str(jobs.folder / "live"))
        .start()
    )
    try:
        for number in range(3):
            publish(db, "orders", number)
            eventually_sync(lambda number=number: copies(db) == list(range(number + 1)))
        # An idle stream makes no empty batches, whatever else happens in the database.
        batches = query.lastProgress["batchId"]
        for _ in range(20):
            db.execute("select penstock.create_topic('another'), penstock.delete_topic('another')")
        publish(db, "orders", 3)
        eventually_sync(lambda: copies(db) == list(range(4)))
        eventually_sync(lambda: query.lastProgress["batchId"] > batches)
        assert query.lastProgress["batchId"] <= batches + 2
    finally:
        query.stop()
    reported = json.loads(query.lastProgress["sources"][0]["endOffset"])
    assert {"cluster", "snap"} <= reported.keys()


def test_stream_may_lose_tasks_after_they_have_staged(jobs: Jobs, db: Any) -> None:
    """A task fails after its rows were copied: nothing of the batch is published, then all."""
    from pyspark.sql.functions import udf

    publish(db, "orders", *range(8))
    broken = jobs.folder / "broken"
    broken.touch()

    def check(value):  # type: ignore[no-untyped-def]  # Spark would read types
        if value == "7" and broken.exists():
            raise RuntimeError("the last row")
        return value

    fail_once = udf(check, "string")

    frame = from_orders(jobs, maxRecordsPerPartition=4).select(
        "key", fail_once("value").alias("value")
    )
    with pytest.raises(Exception, match="the last row"):
        jobs.copy(frame, "one", topic="copies")
    assert copies(db) == []
    broken.unlink()
    jobs.copy(frame, "one", topic="copies")
    assert copies(db) == list(range(8))
    assert staged(db) == 0


def staged(db: Any) -> int:
    stages = db.execute("select 'penstock_stage.w_' || id from penstock_data.stages").fetchall()
    return sum(db.execute(f"select count(*) from {name}").fetchone()[0] for (name,) in stages)


def test_at_least_once_stream_writes_everything(jobs: Jobs, db: Any) -> None:
    publish(db, "orders", *range(5))
    jobs.copy(from_orders(jobs), "one", topic="copies", delivery="at-least-once")
    assert copies(db) == list(range(5))
    assert staged(db) == 0


def test_running_counts_go_to_a_topic_with_foreach_batch(jobs: Jobs, db: Any) -> None:
    """Spark offers no update mode to Python sinks: numbered batches do the same, once each."""
    publish(db, "orders", 1, 2, 2)
    frame = jobs.stream(subscribe="orders", startingOffsets="earliest")
    counted = frame.groupBy("value").count()

    # Through Connect the function travels to the server, where nothing of ours can be imported.
    url = jobs.url

    def write(batch: Any, number: int) -> None:
        shaped = batch.selectExpr("value as key", "struct(value, count) as value")
        writer = shaped.write.format("penstock").options(url=url, topic="copies")
        for _ in range(2):
            writer.options(txnAppId="counts", txnVersion=number).mode("append").save()

    writer = counted.writeStream.foreachBatch(write).outputMode("update")
    writer = writer.option("checkpointLocation", str(jobs.folder / "counts"))
    writer.trigger(availableNow=True).start().awaitTermination()
    found = db.execute("select payload from penstock.log where topic = 'copies'").fetchall()
    assert sorted(row["count"] for (row,) in found) == [1, 2]
