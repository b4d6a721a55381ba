"""What a read or a write was told, checked while the job is planned."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from penstock.spark.columns import ENTITIES
from penstock.spark.errors import InvalidOption
from penstock.spark.option_names import READ, STREAM, WRITE
from penstock.spark.option_values import EARLIEST, LATEST, Given, Start

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

EXACTLY_ONCE = "exactly-once"
AT_LEAST_ONCE = "at-least-once"
STREAMED = ("messages", "receipts")
FAIL, REWIND = "fail", "rewind"
# A task costs a tenth of a second before its first row; a snapshot is held while it copies.
_ROWS_PER_TASK = 500_000
_DELAY = timedelta(minutes=15)


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """What a batch or stream read was told."""

    entity: str
    topics: tuple[str, ...]
    pattern: str | None
    queues: tuple[str, ...]
    start: Start
    end: Start
    since: datetime | None
    until: datetime | None
    tenant: str | None
    key: str | None
    columns: tuple[str, ...] | None
    kafka_headers: bool
    rows_per_partition: int
    min_partitions: int | None
    group: str | None
    fail_on_data_loss: bool
    rewind: bool
    """Whether a lost offset sends the stream back, instead of failing it."""
    max_rows: int | None
    max_bytes: int | None
    min_rows: int | None
    max_delay: timedelta
    tasks_table: str
    attempts_table: str


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """What a batch or stream write was told."""

    topic: str | None
    exactly_once: bool
    json_values: bool
    app_id: str | None
    version: int | None


def shape_options(given: Mapping[str, str]) -> tuple[str, tuple[str, ...] | None, bool]:
    """What decides a read's columns, whether it is for a batch or a stream."""
    get = Given(given, None)
    entity = get.one_of("entity", "messages", tuple(ENTITIES))
    return entity, get.words("columns") or None, get.flag("includeHeaders", default=False)


def read_options(given: Mapping[str, str], *, stream: bool) -> ReadOptions:
    """Check the options of a read."""
    get = Given(given, STREAM if stream else READ)
    entity = get.one_of("entity", "messages", tuple(ENTITIES))
    if stream and entity not in STREAMED:
        raise InvalidOption(
            f"entity {entity} can't be read as a stream, only {' and '.join(STREAMED)} can: "
            "read it with spark.read"
        )
    options = ReadOptions(
        entity=entity,
        topics=get.topics(),
        pattern=get.text("subscribePattern"),
        queues=get.words("queue"),
        start=get.start("startingOffsets", LATEST if stream else EARLIEST),
        end=get.start("endingOffsets", LATEST),
        since=get.time("startingTimestamp", "since"),
        until=get.time("endingTimestamp", "until"),
        tenant=get.text("tenant"),
        key=get.text("key"),
        columns=get.words("columns") or None,
        kafka_headers=get.flag("includeHeaders", default=False),
        rows_per_partition=get.number("maxRecordsPerPartition") or _ROWS_PER_TASK,
        min_partitions=get.number("minPartitions"),
        group=get.text("group"),
        fail_on_data_loss=get.flag("failOnDataLoss", default=True),
        rewind=get.one_of("onLostOffset", FAIL, (FAIL, REWIND)) == REWIND,
        max_rows=get.number("maxOffsetsPerTrigger"),
        max_bytes=get.number("maxBytesPerTrigger"),
        min_rows=get.number("minOffsetsPerTrigger"),
        max_delay=get.duration("maxTriggerDelay", _DELAY),
        tasks_table=get.text("tasksTable") or "mq_tasks",
        attempts_table=get.text("attemptsTable") or "mq_task_attempts",
    )
    _check_scope(options, given, stream=stream)
    return options


def _check_scope(options: ReadOptions, given: Mapping[str, str], *, stream: bool) -> None:
    if options.topics and options.pattern:
        raise InvalidOption("give subscribe or subscribePattern, not both")
    needs_topics = options.entity == "messages"
    if needs_topics and not (options.topics or options.pattern):
        raise InvalidOption(
            "say which topics to read: option subscribe (names, separated by commas) "
            "or subscribePattern (a regular expression)"
        )
    if options.since is not None and "startingoffsets" in {name.lower() for name in given}:
        raise InvalidOption("give startingOffsets or startingTimestamp, not both")
    from_now = options.start.word == LATEST and options.since is None
    if stream and from_now and options.group is None:
        raise InvalidOption(
            "a stream from latest needs a group: Spark does not keep where a stream began, and "
            "after a failure in the first batch messages would be lost. Give option group (a name "
            "for this stream), or startingOffsets=earliest, or startingTimestamp"
        )
    if not stream and options.start.word == LATEST:
        raise InvalidOption("a batch read from latest is empty: use earliest, or an offset")
    if options.end.word == EARLIEST or options.end.floors is not None:
        raise InvalidOption("endingOffsets is latest, or an offset as a stream reports it")


def write_options(given: Mapping[str, str]) -> WriteOptions:
    """Check the options of a write."""
    get = Given(given, WRITE)
    app_id, version = get.text("txnAppId"), get.number("txnVersion", least=0)
    if (app_id is None) != (version is None):
        raise InvalidOption("txnAppId and txnVersion go together: give both or neither")
    exactly_once = (
        get.one_of("delivery", EXACTLY_ONCE, (EXACTLY_ONCE, AT_LEAST_ONCE)) == EXACTLY_ONCE
    )
    if app_id is not None and not exactly_once:
        raise InvalidOption("txnAppId promises exactly-once: leave out delivery=at-least-once")
    topics = get.topics()
    if len(topics) > 1:
        raise InvalidOption("a write has one topic: for several, put the names into a column topic")
    return WriteOptions(
        topic=topics[0] if topics else None,
        exactly_once=exactly_once,
        json_values=get.one_of("valueFormat", "json", ("json", "text")) == "json",
        app_id=app_id,
        version=version,
    )
