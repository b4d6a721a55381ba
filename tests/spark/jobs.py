"""Short ways to read and write one database with Spark."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery


@dataclass(frozen=True, slots=True)
class Jobs:
    """Every job of a test."""

    spark: SparkSession
    url: str
    folder: Path

    def read(self, **options: Any) -> DataFrame:
        return self.spark.read.format("penstock").options(url=self.url, **options).load()

    def stream(self, **options: Any) -> DataFrame:
        return self.spark.readStream.format("penstock").options(url=self.url, **options).load()

    def write(self, frame: DataFrame, **options: Any) -> None:
        frame.write.format("penstock").options(url=self.url, **options).mode("append").save()

    def start(self, frame: DataFrame, name: str, **options: Any) -> StreamingQuery:
        """Write a stream to a topic until everything that is there now is written."""
        writer = frame.writeStream.format("penstock").options(url=self.url, **options)
        place = str(self.folder / name)
        return writer.option("checkpointLocation", place).trigger(availableNow=True).start()

    def copy(self, frame: DataFrame, name: str, **options: Any) -> StreamingQuery:
        """The same, and wait for it."""
        query = self.start(frame, name, **options)
        query.awaitTermination()
        return query

    def rows(self, number: int, *columns: str) -> DataFrame:
        """Rows 1 to number, with these expressions of `n`."""
        return (
            self.spark.range(1, number + 1, 1, 2).withColumnRenamed("id", "n").selectExpr(*columns)
        )


_TYPES = {
    "string": StringType(),
    "int": IntegerType(),
    "long": LongType(),
    "binary": BinaryType(),
    "timestamp": TimestampType(),
    "array<int>": ArrayType(IntegerType()),
}


def structure(text: str) -> StructType:
    """A schema from "value string, n int", without a Spark that would read it."""
    fields = [each.split() for each in text.split(",")]
    return StructType([StructField(name, _TYPES[kind]) for name, kind in fields])
