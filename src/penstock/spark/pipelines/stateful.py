"""dedupe and aggregate: two streams whose state Spark keeps, ready to run and to start from."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Unpack

from pyspark.sql import functions as f

from penstock.errors import InvalidSetting
from penstock.spark.pipelines import engine_calls, stream_options
from penstock.spark.pipelines.engine_calls import Lag
from penstock.spark.pipelines.failures import plain_error
from penstock.spark.pipelines.publication import MESSAGE
from penstock.spark.pipelines.run import Run, RunOptions, started

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from collections.abc import Mapping as MappingOf

    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from penstock.spark.pipelines.run import Run, Summary

_TOPICS = "topics.json"
_LOOK_SECONDS = 0.25


def dedupe(
    topics: str | Sequence[str],
    to_topic: str,
    *,
    by: str = "key",
    within: timedelta = timedelta(hours=1),
    group: str | None = None,
    start: str = "earliest",
    max_rows: int | None = 100_000,
    **run: Unpack[RunOptions],
) -> Summary:
    """Pass on the first message of each value of `by` (an SQL expression); drop the others.

    A message is a duplicate when one like it was published within the window before it.
    """

    def shape(frame: DataFrame) -> DataFrame:
        marked = frame.withColumn("_by", f.expr(by).cast("string"))
        watched = marked.withWatermark("timestamp", _seconds(within))
        return watched.dropDuplicatesWithinWatermark(["_by"]).select(*_message_columns(frame))

    reading = _Reading(stream_options.names(topics), group, start, max_rows)
    return _stateful("dedupe", reading, to_topic, shape, run, marks=(by, within))


def aggregate(
    topics: str | Sequence[str],
    to_topic: str,
    *,
    by: str | None = "key",
    window: timedelta = timedelta(minutes=1),
    late: timedelta = timedelta(seconds=10),
    values: MappingOf[str, str] | None = None,
    group: str | None = None,
    start: str = "earliest",
    max_rows: int | None = 100_000,
    **run: Unpack[RunOptions],
) -> Summary:
    """Publish one message per window and value of `by`: how many there were, and more if asked.

    `values` names aggregates, such as {"total": "sum(get_json_object(value, '$.amount'))"}.  A
    window is published once, when a message `late` behind its end has been seen.
    """

    def shape(frame: DataFrame) -> DataFrame:
        watched = frame.withWatermark("timestamp", _seconds(late))
        size = f.window("timestamp", _seconds(window))
        keys = [size] if by is None else [size, f.expr(by).cast("string").alias("key")]
        asked = [f.expr(expression).alias(name) for name, expression in (values or {}).items()]
        counted = watched.groupBy(*keys).agg(f.count("*").alias("count"), *asked)
        if by is None:
            counted = counted.withColumn("key", f.lit(None).cast("string"))
        told = ["key", "count", *(values or {})]
        value = f.to_json(
            f.struct(f.col("window.start").alias("start"), f.col("window.end").alias("end"), *told)
        )
        return counted.select("key", value.alias("value"))

    reading = _Reading(stream_options.names(topics), group, start, max_rows)
    return _stateful("aggregate", reading, to_topic, shape, run, marks=(by, window, late, values))


@dataclass(frozen=True, slots=True)
class _Reading:
    """What a stream reads, and from where."""

    topics: list[str]
    group: str | None
    start: str
    max_rows: int | None

    def frame(self, run: Run, group: str) -> DataFrame:
        asked = stream_options.options(
            run, self.topics, group=group, start=self.start, max_rows=self.max_rows
        )
        return run.spark.readStream.format("penstock").options(**asked).load()


def _stateful(
    pipeline: str,
    reading: _Reading,
    to_topic: str,
    shape: Callable[[DataFrame], DataFrame],
    options: RunOptions,
    *,
    marks: tuple[Any, ...],
) -> Summary:
    if to_topic in reading.topics:
        raise InvalidSetting(f"{pipeline} reads {to_topic}: write to another topic")
    with started(pipeline, options, *reading.topics, to_topic, *marks) as going:
        name = reading.group or stream_options.default_group(pipeline, going)
        _check_topics(going, reading.topics, name)
        engine_calls.ensure_topic(going.url, to_topic)
        frame = reading.frame(going, name)
        lag = Lag(going.url, name, reading.topics)
        _follow(going, _writer(going, shape(frame), to_topic), lag=lag)
        return going.summary(
            lag=engine_calls.reader_lag(going.url, name, reading.topics), to=to_topic
        )


def _check_topics(run: Run, topics: list[str], group: str) -> None:
    """A state is for its topics: what it remembers is past the time of another one's messages."""
    stream_options.check_topics(run, topics)
    noted = _noted_topics(run, group) if run.state.has_checkpoint() else []
    # A topic that was deleted can't be named any more.
    there = engine_calls.topic_names(run.url)
    noted = [topic for topic in noted if topic in there] or noted
    if noted and set(noted) != set(topics):
        raise InvalidSetting(
            f"the state {run.state.location} is of {', '.join(noted)}, not of {', '.join(topics)}: "
            "its watermark would drop older messages of another topic. "
            "Give this run a --state and a --group of its own"
        )
    run.state.write(_TOPICS, sorted(topics))


def _noted_topics(run: Run, group: str) -> list[str]:
    noted: list[str] | None = run.state.read(_TOPICS)
    # An earlier release did not note them.
    return sorted(engine_calls.group_topics(run.url, group)) if noted is None else noted


def _writer(run: Run, frame: DataFrame, topic: str) -> Any:
    """The exactly-once sink of the source, fed by the stream itself."""
    writer = frame.writeStream.format("penstock").outputMode("append")
    return writer.option("url", run.url).option("topic", topic)


def _message_columns(frame: DataFrame) -> list[str]:
    return [
        name for name in MESSAGE if name in frame.columns and name not in {"topic", "expires_at"}
    ]


def _seconds(span: timedelta) -> str:
    return f"{span.total_seconds():.3f} seconds"


def _follow(
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
            time.sleep(_LOOK_SECONDS)
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
        raise plain_error(problem) from problem
