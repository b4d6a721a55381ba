"""dedupe and aggregate: two streams with a memory, as they are and as examples to start from."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Unpack

from pyspark.sql import functions as f

from penstock.errors import InvalidSetting
from penstock.spark.pipelines import database, source, streaming
from penstock.spark.pipelines.lag import Lag
from penstock.spark.pipelines.run import Run, RunOptions, started
from penstock.spark.pipelines.sink import MESSAGE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from collections.abc import Mapping as MappingOf

    from pyspark.sql import DataFrame

    from penstock.spark.pipelines.summary import Summary


_TOPICS = "topics.json"


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

    reading = _Reading(source.names(topics), group, start, max_rows)
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

    reading = _Reading(source.names(topics), group, start, max_rows)
    return _stateful("aggregate", reading, to_topic, shape, run, marks=(by, window, late, values))


@dataclass(frozen=True, slots=True)
class _Reading:
    """What a stream reads, and from where."""

    topics: list[str]
    group: str | None
    start: str
    max_rows: int | None

    def frame(self, run: Run, group: str) -> DataFrame:
        asked = source.options(
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
        name = reading.group or source.default_group(pipeline, going)
        _check_topics(going, reading.topics, name)
        database.ensure_topic(going.url, to_topic)
        frame = reading.frame(going, name)
        lag = Lag(going.url, name, reading.topics)
        streaming.follow(going, _writer(going, shape(frame), to_topic), lag=lag)
        return going.summary(lag=database.reader_lag(going.url, name, reading.topics), to=to_topic)


def _check_topics(run: Run, topics: list[str], group: str) -> None:
    """A state is for its topics: what it remembers is past the time of another one's messages."""
    source.check_topics(run, topics)
    noted = _noted_topics(run, group) if run.state.has_checkpoint() else []
    # A topic that was deleted can't be named any more.
    there = database.topic_names(run.url)
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
    return sorted(database.group_topics(run.url, group)) if noted is None else noted


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
