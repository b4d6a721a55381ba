"""Running a stream: started, followed, stopped, and its errors told in one sentence."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from penstock.spark.pipelines.trouble import told

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from penstock.spark.pipelines.run import Run

_LOOK = 0.25


def follow(
    run: Run,
    writer: DataStreamWriter,
    *,
    lag: Callable[[], int | None] = lambda: None,
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
            counted = _count(run, query, counted)
            run.teller.tell(lag=lag())
            time.sleep(_LOOK)
    finally:
        if query.isActive:
            query.stop()
    _count(run, query, counted)
    _check(query)


def _count(run: Run, query: StreamingQuery, counted: int) -> int:
    """Add the batches since the last look; returns the number of the last one counted."""
    for progress in query.recentProgress:
        # Its property: through Connect the entry itself is empty.
        batch, rows = int(progress["batchId"]), progress.numInputRows
        if batch > counted and rows:
            counted = batch
            run.teller.add(rows)
    return counted


def _check(query: StreamingQuery) -> None:
    problem = query.exception()
    if problem is not None:
        raise told(problem) from problem
