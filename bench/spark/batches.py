"""Batch reads and writes, beside Spark's JDBC source and sink."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.spark.measure import JDBC, OURS, Contest, play
from bench.spark.place import ROWS, TOPIC

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame

    from bench.spark.place import Place

READ = """(select key, payload::text as value, id, published_at, headers::text as headers, priority,
    deliver_after, expires_at, correlation_id, tenant_id from penstock_data.messages) log"""
# The same columns by their names here: those that a message has of its own.
COLUMNS = (
    "key,value,offset,timestamp,headers,priority,deliver_after,expires_at,correlation_id,tenant_id"
)


def _consume(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


def batch_read(place: Place, messages: int, rounds: int) -> Contest:
    """All messages of a topic, against spark.read.jdbc with four partitions."""
    place.fresh()
    place.fill(messages)

    def ours() -> None:
        reader = place.spark.read.format("penstock").options(url=place.url, columns=COLUMNS)
        _consume(reader.load(TOPIC))

    def jdbc() -> None:
        bounds = {"partitionColumn": "id", "lowerBound": "1", "upperBound": str(messages)}
        options = place.jdbc(dbtable=READ, numPartitions="4", fetchsize="10000", **bounds)
        _consume(place.spark.read.format("jdbc").options(**options).load())

    contest = Contest("batch read", messages)
    return play(place, contest, {OURS: ours, JDBC: jdbc}, rounds, lambda: None)


def batch_write(place: Place, messages: int, rounds: int) -> Contest:
    """The same rows into the log and into a table like it, with rewritten batches."""
    place.numbers(messages)
    rows = place.spark.sql(ROWS)

    def penstock(delivery: str) -> Callable[[], None]:
        writer = rows.write.format("penstock").options(
            url=place.url, topic=TOPIC, delivery=delivery
        )
        return lambda: writer.mode("append").save()

    def jdbc() -> None:
        options = place.jdbc(dbtable="jdbc_log", batchsize="10000")
        rows.write.format("jdbc").options(**options).mode("append").save()

    ways = {"exactly once": penstock("exactly-once"), "at least once": penstock("at-least-once")}
    contest = Contest("batch write", messages)
    return play(place, contest, {**ways, JDBC: jdbc}, rounds, place.fresh)
