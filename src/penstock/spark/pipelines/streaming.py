"""Running a stream: started, followed, stopped, and its errors told in one sentence."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from penstock.errors import InvalidSetting
from penstock.spark.pipelines.errors import PipelineFailed
from penstock.spark.pipelines.trouble import told

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from penstock.spark.pipelines.run import Run

_LOOK = 0.25

Each = Callable[["DataFrame", int], None]


class Caught:
    """Runs a batch's work and keeps what it raises: Spark would wrap it in a page of Java."""

    def __init__(self, work: Each) -> None:
        self._work = work
        self.problem: Exception | None = None

    def __call__(self, frame: DataFrame, batch: int) -> None:
        try:
            self._work(frame, batch)
        except Exception as problem:
            self.problem = problem
            raise


def each_batch(
    run: Run,
    frame: DataFrame,
    work: Each,
    *,
    lag: Callable[[], int | None] = lambda: None,
    count: bool = True,
) -> None:
    """Run `work` on every batch of a stream until its end.

    `count`: False where the work counts its rows itself, because it reads them from a cache, of
    which Spark's progress does not tell.
    """
    if type(frame).__module__.startswith("pyspark.sql.connect"):
        raise InvalidSetting(
            f"{run.pipeline} works on each batch in this process, and Spark Connect would do that "
            "on its server: run it embedded, or on a cluster with --master"
        )
    caught = Caught(work)
    follow(run, frame.writeStream.foreachBatch(caught), lag=lag, caught=caught, count=count)


def follow(
    run: Run,
    writer: DataStreamWriter,
    *,
    lag: Callable[[], int | None] = lambda: None,
    caught: Caught | None = None,
    count: bool = True,
) -> None:
    """Start a stream on the run's checkpoint and stay with it until it ends."""
    writer = writer.option("checkpointLocation", run.state.checkpoint)
    writer = (
        writer.trigger(availableNow=True)
        if run.once
        else writer.trigger(processingTime=f"{run.every.total_seconds() * 1000:.0f} milliseconds")
    )
    query = writer.start()
    counted = -1
    try:
        while query.isActive:
            counted = _count(run, query, counted) if count else counted
            run.teller.tell(lag=lag())
            time.sleep(_LOOK)
    finally:
        if query.isActive:
            query.stop()
    if count:
        _count(run, query, counted)
    _check(query, caught)


def _count(run: Run, query: StreamingQuery, counted: int) -> int:
    """Add the batches since the last look; returns the number of the last one counted."""
    for progress in query.recentProgress:
        # Its property: through Connect the entry itself is empty.
        batch, rows = int(progress["batchId"]), progress.numInputRows
        if batch > counted and rows:
            counted = batch
            run.teller.add(rows)
    return counted


def _check(query: StreamingQuery, caught: Caught | None) -> None:
    if caught is not None and caught.problem is not None:
        raise told(caught.problem) from caught.problem
    problem = query.exception()
    if problem is not None:
        raise told(problem) from problem


def query_id(run: Run, frame: DataFrame) -> str:
    """The name of the stream that a batch belongs to: as old as its checkpoint, and no older.

    What a batch is written under must begin anew with the checkpoint, because the numbers do.
    """
    if not run.state.is_remote:
        return str(run.state.read("checkpoint/metadata")["id"])
    found: str | None = frame.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
    if found is None:
        raise PipelineFailed("the batch does not say which stream it belongs to")
    return found
