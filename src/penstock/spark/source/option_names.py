"""Every option of the data source: its name, where it may stand, its default, what it means.

Names are Kafka's where Kafka has the same option.  Unknown options are refused while the job is
planned, with the nearest known one; `kafka.*` is ignored, so that a job moves by changing its
format.
"""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING

from penstock.errors import PenstockError
from penstock.spark.source.columns import ENTITIES

if TYPE_CHECKING:
    from collections.abc import Mapping

READ = "read"
STREAM = "stream"
WRITE = "write"


class InvalidOption(PenstockError):
    """An option of the data source is unknown, missing, or has a value that can't be used."""


@dataclass(frozen=True, slots=True)
class Option:
    """One option, as the reference page lists it."""

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
    Option("maxRecordsPerPartition", _READS, "`500000`", "a task reads at most so many messages"),
    Option("minPartitions", _READS, "up to 4", "make at least so many tasks of a read"),
    Option(
        "group",
        (STREAM,),
        "",
        "the stream's name in the database: keeps the log for it and shows its lag",
    ),
    Option(
        "failOnDataLoss",
        _READS,
        "`true`",
        "fail when messages after the offset to start at were removed, instead of going on",
    ),
    Option(
        "onLostOffset",
        _READS,
        "`fail`",
        "what to do with an offset that stands on transactions which a fail-over or a restore "
        "lost: `fail`, or `rewind`, which reads again from the newest point that was not lost",
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
_STARTS = ("startingOffsets", "startingTimestamp", "since")
_KNOWN = {option.name.lower(): option for option in OPTIONS}


def for_batches(options: Mapping[str, str]) -> dict[str, str]:
    """The options of a stream that a batch read knows as well, but for where it begins."""
    return {
        name: value
        for name, value in options.items()
        if READ in _KNOWN[name.lower()].uses and name not in _STARTS
    }


def check_name(name: str, use: str | None) -> None:
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
