"""The options of a read or a write, as typed values, checked while the job is planned."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from penstock.spark.source.columns import ENTITIES
from penstock.spark.source.offsets import Snapshot
from penstock.spark.source.option_names import READ, STREAM, WRITE, InvalidOption, check_name

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

EXACTLY_ONCE = "exactly-once"
AT_LEAST_ONCE = "at-least-once"
STREAMED = ("messages", "receipts")
FAIL, REWIND = "fail", "rewind"
# A task costs a tenth of a second before its first row; a snapshot is held while it copies.
_ROWS_PER_TASK = 500_000
_DELAY = timedelta(minutes=15)
EARLIEST = "earliest"
LATEST = "latest"
_LARGEST = 2**62


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """The options of a batch or stream read."""

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
    """The options of a batch or stream write."""

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


@dataclass(frozen=True, slots=True)
class Start:
    """Where to begin or to end: a word, an offset of ours, or the first id of each topic."""

    word: str | None = None
    offset: dict[str, Any] | None = None
    floors: dict[str, int] | None = None


class Given:
    """The options as the user gave them, asked for one by one."""

    def __init__(self, given: Mapping[str, str], use: str | None) -> None:
        self._given = {name.lower(): str(value) for name, value in given.items()}
        for name in self._given:
            check_name(name, use)

    def text(self, name: str) -> str | None:
        value = self._given.get(name.lower(), "").strip()
        return value or None

    def words(self, name: str) -> tuple[str, ...]:
        words = (word.strip() for word in self._given.get(name.lower(), "").split(","))
        return tuple(dict.fromkeys(word for word in words if word))

    def topics(self) -> tuple[str, ...]:
        ways = [way for way in ("subscribe", "topic", "path") if self.text(way)]
        if len(ways) > 1:
            raise InvalidOption(f"topics are given twice, by {' and by '.join(ways)}: choose one")
        return self.words(ways[0]) if ways else ()

    def one_of(self, name: str, default: str, choices: tuple[str, ...]) -> str:
        value = (self.text(name) or default).lower().replace("_", "-")
        plain = {choice.replace("_", "-"): choice for choice in choices}
        if value not in plain:
            raise InvalidOption(f"{name} is {value}: choose from {', '.join(choices)}")
        return plain[value]

    def number(self, name: str, *, least: int = 1) -> int | None:
        found: int | None = self._converted(name, lambda text: _number(text, least))
        return found

    def flag(self, name: str, *, default: bool) -> bool:
        value = (self.text(name) or str(default)).lower()
        if value not in {"true", "false"}:
            raise InvalidOption(f"{name} is {value}: true or false is needed")
        return value == "true"

    def time(self, *names: str) -> datetime | None:
        found = [name for name in names if self.text(name)]
        if len(found) > 1:
            raise InvalidOption(f"{' and '.join(found)} mean the same: give one of them")
        return self._converted(found[0], _moment) if found else None

    def duration(self, name: str, default: timedelta) -> timedelta:
        found: timedelta | None = self._converted(name, _span)
        return default if found is None else found

    def start(self, name: str, default: str) -> Start:
        return self._converted(name, _start) or Start(default)

    def _converted(self, name: str, convert: Callable[[str], Any]) -> Any:
        text = self.text(name)
        if text is None:
            return None
        try:
            return convert(text)
        except OverflowError:
            raise InvalidOption(f"{name} is {text}: that is too large") from None
        except ValueError as problem:
            raise InvalidOption(f"{name} is {text}: {problem}") from None


def _number(text: str, least: int) -> int:
    if not re.fullmatch(r"\d+", text) or not least <= int(text) <= _LARGEST:
        raise ValueError(f"a whole number from {least} is needed")
    return int(text)


def _moment(text: str) -> datetime:
    if re.fullmatch(r"\d+", text):
        return datetime.fromtimestamp(int(text) / 1000, UTC)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError("milliseconds since 1970 or ISO 8601 is needed") from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}


def _span(text: str) -> timedelta:
    match = re.fullmatch(
        r"(\d+(?:\.\d+)?)\s*(ms|s|min|m|h|d)(?:ec(?:ond)?s?|utes?|ours?|ays?)?", text
    )
    if match is None:
        raise ValueError("a duration such as 500ms, 30s or 15m is needed")
    return timedelta(seconds=float(match[1]) * _UNITS[match[2]])


def _start(text: str) -> Start:
    if text.lower() in {EARLIEST, LATEST}:
        return Start(text.lower())
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError):
        parsed = None
    if not isinstance(parsed, dict):  # the user gave text, so it is a matter of its value
        raise ValueError("earliest, latest or a JSON object is needed")  # noqa: TRY004
    if "snap" in parsed:
        return Start(offset=_checked_offset(parsed))
    return Start(floors={topic: _floor(topic, value) for topic, value in parsed.items()})


def _checked_offset(parsed: dict[str, Any]) -> dict[str, Any]:
    end = parsed.get("to", parsed)
    snapshots = [parsed["snap"], end.get("snap") if isinstance(end, dict) else None]
    if not all(isinstance(each, str) for each in snapshots):
        raise ValueError("that is no offset: give it as a stream reports it")
    for each in snapshots:
        Snapshot.parse(each)
    return parsed


def _floor(topic: str, value: Any) -> int:
    """Kafka's `{"topic": {"0": 23}}`, or shorter `{"topic": 23}`."""
    if isinstance(value, dict):
        value = value.get("0")
    if not isinstance(value, int) or isinstance(value, bool) or value < -2 or value == -1:  # noqa: PLR2004
        raise ValueError(
            f"the first id of topic {topic} is needed, or -2 for its beginning "
            "(a topic is one log, its partition is 0)"
        )
    return max(value, 0)
