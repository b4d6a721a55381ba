"""Tables of files: a batch counts once, readers see whole batches, small files are joined."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as f

from penstock.errors import InvalidSetting
from penstock.spark.lake import Lake, Wanted, open_lake
from penstock.spark.lake.parquet import ParquetLake

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FORMATS = ("delta", "iceberg", "parquet")
# A folder's name must survive it.
AWKWARD = "a/b %=.x"


def rows(spark: SparkSession, start: int, count: int) -> DataFrame:
    """Rows an hour apart, in two topics and over several days."""
    hours = f.lit(1763000000) + f.col("offset") * 3600
    return (
        spark.range(start, start + count, 1, 2)
        .withColumnRenamed("id", "offset")
        .withColumn("topic", f.when(f.col("offset") % 3 == 0, AWKWARD).otherwise("orders"))
        .withColumn("timestamp", f.timestamp_seconds(hours))
        .withColumn("value", f.to_json(f.struct("offset")))
        .withColumn("headers", f.lit(None).cast("string"))
        .withColumn("day", f.to_date("timestamp"))
    )


def offsets(lake: Lake, spark: SparkSession, wanted: Wanted | None = None) -> list[int]:
    return sorted(row["offset"] for row in lake.read(spark, wanted).collect())


@pytest.mark.parametrize("kind", FORMATS)
def test_a_batch_is_written_once_and_survives_compaction(
    spark: SparkSession, tmp_path: Path, kind: str
):
    lake = open_lake(str(tmp_path / "lake"), kind)
    assert lake.version_of("app") is None
    assert lake.write(rows(spark, 0, 40), "app", 0) == 40
    assert lake.write(rows(spark, 40, 20), "app", 1) == 20
    assert lake.write(rows(spark, 40, 20), "app", 1) == 0
    assert lake.version_of("app") == 1
    found = lake.read(spark).collect()
    assert sorted(row["offset"] for row in found) == list(range(60))
    assert {row["topic"] for row in found} == {"orders", AWKWARD}
    assert all(json.loads(row["value"])["offset"] == row["offset"] for row in found)

    before = len(lake.pieces(Wanted()))
    done = lake.compact(below_bytes=1 << 20, keep_hours=0)
    assert done.files_before > done.files_after > 0
    assert len(lake.pieces(Wanted())) == before - done.files_before + done.files_after
    assert offsets(lake, spark) == list(range(60))
    # What was committed before compaction is still known.
    assert lake.write(rows(spark, 40, 20), "app", 1) == 0


@pytest.mark.parametrize("kind", FORMATS)
def test_a_reader_leaves_out_files_of_other_topics_and_days(
    spark: SparkSession, tmp_path: Path, kind: str
):
    lake = open_lake(str(tmp_path / "lake"), kind)
    lake.write(rows(spark, 0, 72), "app", 0)
    second = Wanted(
        ("orders",),
        datetime(2025, 11, 14, 3, tzinfo=UTC),
        datetime(2025, 11, 14, 23, tzinfo=UTC),
    )
    found = lake.read(spark, second).collect()
    assert {str(row["day"]) for row in found} == {"2025-11-14"}
    assert {row["topic"] for row in found} == {"orders"}
    assert len(lake.pieces(second)) < len(lake.pieces(Wanted()))


@pytest.mark.parametrize("kind", FORMATS)
def test_files_that_were_never_committed_are_never_read(
    spark: SparkSession, tmp_path: Path, kind: str
):
    lake = open_lake(str(tmp_path / "lake"), kind)
    lake.write(rows(spark, 0, 10), "app", 0)
    made = lake._make_files(rows(spark, 10, 10))
    assert sum(each.rows for each in made) == 10
    assert offsets(open_lake(str(tmp_path / "lake"), kind), spark) == list(range(10))
    # The batch is done again, as after a crash, and counts once.
    lake.write(rows(spark, 10, 10), "app", 1)
    assert offsets(lake, spark) == list(range(20))


def test_a_parquet_commit_that_was_interrupted_is_finished_by_the_next_who_opens_it(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    lake = open_lake(str(tmp_path / "lake"), "parquet")
    lake.write(rows(spark, 0, 10), "app", 0)

    def crash(_self: Any, path: str) -> None:
        if not json.loads(Path(path).read_text())["done"]:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(ParquetLake, "_finish", crash)
        with pytest.raises(KeyboardInterrupt):
            lake.write(rows(spark, 10, 10), "app", 1)
    again = open_lake(str(tmp_path / "lake"), "parquet")
    assert again.version_of("app") == 1
    assert offsets(again, spark) == list(range(20))
    # Any tool sees the same files.
    assert spark.read.parquet(str(tmp_path / "lake")).count() == 20


def test_a_remote_iceberg_table_needs_a_catalog():
    with pytest.raises(InvalidSetting, match="--catalog"):
        open_lake("s3://bucket/table", "iceberg")
