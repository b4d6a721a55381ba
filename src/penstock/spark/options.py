"""Every option of the data source: its name, its default, what it means, and its check.

Names are Kafka's where Kafka has the thing.  Unknown options are refused while the job is planned,
with the nearest known one; `kafka.*` is passed over, so that a job moves by changing its format.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from penstock.spark.columns import ENTITIES
from penstock.spark.errors import InvalidOption

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

READ = "read"
STREAM = "stream"
WRITE = "write"


@dataclass(frozen=True, slots=True)
class Option:
    """One option as the reference tells of it."""

    name: str
    uses: tuple[str, ...]
    default: str
    meaning: str


_ALL = (READ, STREAM, WRITE)
_READS = (READ, STREAM)
OPTIONS = (
    Option("url", _ALL, "`PENSTOCK_DSN`", "the database, as `postgresql://host:5432/database`"),
    Option("user", _ALL, "", "the role to log in as"),
    Option("password", _ALL, "", "its password; a pass file or a service file works as well"),
    Option(
        "entity",
        _READS,
        "`messages`",
        "what is read: " + ", ".join(f"`{each}`" for each in ENTITIES),
    ),
    Option("subscribe", _READS, "", "topics, separated by commas"),
    Option("subscribePattern", _READS, "", "a regular expression that whole topic names match"),
    Option("topic", _ALL, "", "the topic to write to; when reading, the same as `subscribe`"),
    Option(
        "queue",
        _READS,
        "all",
        "queues, separated by commas: for `queue`, `receipts`, `dead_letters`, `statistics`",
    ),
    Option(
        "startingOffsets",
        _READS,
        "`latest` for streams, else `earliest`",
        '`earliest`, `latest`, an offset as a stream reports it, or `{"topic": id}`',
    ),
    Option("endingOffsets", (READ,), "`latest`", "`latest`, or an offset as a stream reports it"),
    Option(
        "startingTimestamp",
        _READS,
        "",
        "messages published from then on: milliseconds since 1970, or ISO 8601",
    ),
    Option("endingTimestamp", (READ,), "", "messages published before"),
    Option("since", _READS, "", "the same as `startingTimestamp`"),
    Option("until", (READ,), "", "the same as `endingTimestamp`"),
    Option("tenant", _READS, "", "only this tenant"),
    Option("key", _READS, "", "only this key"),
    Option("columns", _READS, "all", "the columns to read, separated by commas"),
    Option(
        "includeHeaders",
        _READS,
        "`false`",
        "headers in Kafka's shape, an array of structs, instead of JSON",
    ),
    Option("maxRecordsPerPartition", _READS, "`200000`", "a task reads at most so many messages"),
    Option("minPartitions", _READS, "up to 4", "make at least so many tasks of a read"),
    Option(
        "group",
        (STREAM,),
        "",
        "the stream's name in the database: keeps the log for it and shows its lag",
    ),
    Option(
        "failOnDataLoss",
        (STREAM,),
        "`true`",
        "fail when messages were removed before they were read, instead of going on",
    ),
    Option("maxOffsetsPerTrigger", (STREAM,), "no limit", "a batch has at most so many messages"),
    Option(
        "maxBytesPerTrigger",
        (STREAM,),
        "no limit",
        "a batch has at most so many bytes of payloads and headers, or one message",
    ),
    Option("minOffsetsPerTrigger", (STREAM,), "`1`", "wait for so many messages …"),
    Option("maxTriggerDelay", (STREAM,), "`15m`", "… but not longer than this"),
    Option("tasksTable", (READ,), "`mq_tasks`", "the table of entity `tasks`"),
    Option("attemptsTable", (READ,), "`mq_task_attempts`", "the table of entity `task_attempts`"),
    Option("delivery", (WRITE,), "`exactly-once`", "`exactly-once` or `at-least-once`"),
    Option(
        "valueFormat",
        (WRITE,),
        "`json`",
        "what a string or binary value holds: `json`, or "
        "`text`, which is stored as one JSON string",
    ),
    Option(
        "txnAppId",
        (WRITE,),
        "",
        "with `txnVersion`: who writes, so that a batch that was written is not written again",
    ),
    Option("txnVersion", (WRITE,), "", "the number of this batch, rising"),
)
# What Spark itself puts among a source's or a sink's options.
_SPARK = {"path", "checkpointlocation", "queryname", "outputmode", "header"}
_KNOWN = {option.name.lower(): option for option in OPTIONS}

EARLIEST = "earliest"
LATEST = "latest"
EXACTLY_ONCE = "exactly-once"
AT_LEAST_ONCE = "at-least-once"
_LARGEST = 2**62
_ROWS_PER_TASK = 200_000
_DELAY = timedelta(minutes=15)
STREAMED = ("messages", "receipts")


@dataclass(frozen=True, slots=True)
class Start:
    """Where to begin or to end: a word, an offset of ours, or the first id of each topic."""

    word: str | None = None
    offset: dict[str, Any] | None = None
    floors: dict[str, int] | None = None


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
    get = _Given(given, None)
    entity = get.one_of("entity", "messages", tuple(ENTITIES))
    return entity, get.words("columns") or None, get.flag("includeHeaders", default=False)


def read_options(given: Mapping[str, str], *, stream: bool) -> ReadOptions:
    """Check the options of a read."""
    get = _Given(given, STREAM if stream else READ)
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
    get = _Given(given, WRITE)
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


class _Given:
    """The options as the user gave them, asked for one by one."""

    def __init__(self, given: Mapping[str, str], use: str | None) -> None:
        self._given = {name.lower(): str(value) for name, value in given.items()}
        for name in self._given:
            _check_name(name, use)

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
        except ValueError as problem:
            raise InvalidOption(f"{name} is {text}: {problem}") from None


def _check_name(name: str, use: str | None) -> None:
    if name in _SPARK or name.startswith("kafka."):
        return
    option = _KNOWN.get(name)
    if option is None:
        near = get_close_matches(name, _KNOWN, n=1)
        hint = f"did you mean {_KNOWN[near[0]].name}?" if near else "see docs/reference/spark.md"
        raise InvalidOption(f"there is no option {name}: {hint}")
    if use is not None and use not in option.uses:
        places = {READ: "batch reads", STREAM: "stream reads", WRITE: "writes"}
        raise InvalidOption(
            f"option {option.name} is not for {places[use]}, "
            f"only for {' and '.join(places[each] for each in option.uses)}"
        )


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
    except ValueError:
        parsed = None
    if not isinstance(parsed, dict):  # the user gave text, so it is a matter of its value
        raise ValueError("earliest, latest or a JSON object is needed")  # noqa: TRY004
    if "snap" in parsed:
        return Start(offset=parsed)
    return Start(floors={topic: _floor(topic, value) for topic, value in parsed.items()})


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
