"""archive: topics into a lake, exactly once; then the log may shrink."""

# ruff: noqa: A002 - format is Spark's word

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack

from pyspark.sql import functions as f

from penstock.spark.lake import Compaction, Format, Lake, open_lake
from penstock.spark.pipelines import engine_calls, stream_options
from penstock.spark.pipelines.batch_loop import Batch, each_batch
from penstock.spark.pipelines.engine_calls import Lag
from penstock.spark.pipelines.run import Run, RunOptions, started

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pyspark.sql import DataFrame

    from penstock.spark.pipelines.run import Summary

SMALL = 64 * 1024 * 1024


def archive(
    topics: str | Sequence[str],
    target: str | Path,
    *,
    format: Format | str = Format.DELTA,
    group: str | None = None,
    start: str = "earliest",
    max_rows: int | None = 1_000_000,
    compact: bool = False,
    compact_below: int = SMALL,
    keep_hours: int = 168,
    catalog: str | None = None,
    table: str | None = None,
    **run: Unpack[RunOptions],
) -> Summary:
    """Write every message of the topics to the lake once, partitioned by topic and day (UTC).

    A named reader keeps the log until its messages are in the lake, and not longer: retention
    follows the archive.  With `compact` small files are joined at the end.
    """
    wanted = stream_options.names(topics)
    lake = open_lake(str(target), format, catalog=catalog, table=table)
    # The state is inside the archive, so a copy of the archive has it too.
    state = f"{lake.root}/_penstock/state"
    with started("archive", run, *wanted, state=state) as going:
        name = group or stream_options.default_group("archive", going)
        asked = stream_options.options(going, wanted, group=name, start=start, max_rows=max_rows)

        def write(frame: DataFrame, batch: Batch) -> int:
            return lake.write(prepared(frame), batch.stream, batch.number)

        each_batch(going, asked, write, lag=Lag(going.url, name, wanted))
        done = _compacted(going, lake, compact_below, keep_hours) if compact else None
        return _told(going, lake, name, wanted, done)


def prepared(frame: DataFrame) -> DataFrame:
    """What the archive keeps of a message: all of it, and its day."""
    return frame.withColumn("day", f.to_date(f.col("timestamp")))


def _compacted(run: Run, lake: Lake, below: int, keep_hours: int) -> Compaction:
    run.teller.tell(phase="compacting")
    return lake.compact(below_bytes=below, keep_hours=keep_hours)


def _told(
    run: Run, lake: Lake, group: str, topics: Sequence[str], done: Compaction | None
) -> Summary:
    details = {"archive": lake.root, "group": group}
    if done is not None:
        details["compacted"] = f"{done.files_before} files into {done.files_after}"
    return run.summary(lag=engine_calls.reader_lag(run.url, group, topics), **details)
