"""The columns of each entity: their names, their types, and where each comes from.

Kafka's names come first, so that a job written for Kafka finds what it asks for; Penstock's own
names of the same things can be asked for with `columns` or a schema.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from penstock.errors import PenstockError

if TYPE_CHECKING:
    from collections.abc import Iterable

KAFKA_HEADERS = ArrayType(
    StructType([StructField("key", StringType()), StructField("value", BinaryType())])
)


class InvalidColumn(PenstockError):
    """A column is unknown, missing, or of a type that can't be used."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column of an entity."""

    name: str
    type: DataType
    sql: str
    """The SQL expression of its value."""
    meaning: str
    listed: bool = True
    """Whether a read without `columns` has it."""

    @property
    def field(self) -> StructField:
        return StructField(self.name, self.type)


def _text(name: str, sql: str, meaning: str, *, listed: bool = True) -> Column:
    return Column(name, StringType(), sql, meaning, listed)


def _long(name: str, sql: str, meaning: str, *, listed: bool = True) -> Column:
    return Column(name, LongType(), sql, meaning, listed)


def _int(name: str, sql: str, meaning: str, *, listed: bool = True) -> Column:
    return Column(name, IntegerType(), sql, meaning, listed)


def _time(name: str, sql: str, meaning: str, *, listed: bool = True) -> Column:
    return Column(name, TimestampType(), sql, meaning, listed)


MESSAGES = (
    _text("key", "m.key", "the message's key"),
    _text("value", "m.payload::text", "the payload, as JSON text"),
    _text("topic", "m.topic", "the topic's name"),
    _int("partition", "0", "always 0: a topic is one log"),
    _long("offset", "m.id", "the message's id"),
    _time("timestamp", "m.published_at", "when it was published"),
    _int("timestampType", "0", "always 0, as Kafka calls the time of creation"),
    _text("headers", "m.headers::text", "the headers as JSON; Kafka's array with includeHeaders"),
    _int("priority", "m.priority", "higher goes first; 0 is usual"),
    _time("deliver_after", "m.deliver_after", "not delivered to queues before"),
    _time("expires_at", "m.expires_at", "not delivered to queues after"),
    _text("correlation_id", "m.correlation_id", "what the publisher correlates it with"),
    _text("tenant_id", "m.tenant_id", "the tenant it belongs to"),
    _long("id", "m.id", "the same as offset", listed=False),
    _text("payload", "m.payload::text", "the same as value", listed=False),
    _time("published_at", "m.published_at", "the same as timestamp", listed=False),
)
RECEIPTS = (
    _text("queue", "m.queue", "the queue's name"),
    _text("topic", "m.topic", "the topic's name"),
    _long("message_id", "m.message_id", "the message's id: `offset` of messages"),
    _int("attempt", "m.attempt", "which attempt this was; 0 for a message that lapsed unclaimed"),
    _text("outcome", "m.outcome", "acked, failed, released, expired, dead or lapsed"),
    _text("token", "m.token", "the consumer's token"),
    _time("claimed_at", "m.claimed_at", "when the attempt began"),
    _time("ended_at", "m.ended_at", "when it ended"),
    _text("error", "m.error", "what the consumer said"),
    _time("published_at", "l.published_at", "of the message, while it is in the log", listed=False),
    _time("deliver_after", "l.deliver_after", "the same", listed=False),
    _text("key", "l.key", "the same", listed=False),
    _text("tenant_id", "l.tenant_id", "the same", listed=False),
    _int("priority", "l.priority", "the same", listed=False),
)
QUEUE = (
    _text("queue", "{queue}", "the queue's name"),
    _long("message_id", "m.message_id", "the message's id"),
    _text("state", "m.state", "waiting, blocked, delayed, retrying, claimed or done"),
    _int("attempt", "m.attempt", "how often it has been claimed"),
    _int("priority", "m.priority", "higher goes first"),
    _text("key", "m.key", "the message's key"),
    _text("tenant_id", "m.tenant_id", "the tenant it belongs to"),
    _time("visible_at", "m.visible_at", "when it is due, or its claim ends"),
    _text("token", "m.token", "who has claimed or done it"),
    _time("published_at", "m.published_at", "when it was published"),
    _time("claimed_at", "m.claimed_at", "when it was claimed last"),
    _time("ended_at", "m.ended_at", "when it was done"),
)
DEAD_LETTERS = (
    _long("id", "m.id", "the dead letter's number"),
    _text("queue", "m.queue_name", "the queue in which it died"),
    _long("message_id", "m.message_id", "the message's id"),
    _text("key", "m.key", "the message's key"),
    _text("value", "m.payload::text", "the payload, as JSON text"),
    _text("headers", "m.headers::text", "the headers as JSON"),
    _int("attempts", "m.delivery_attempts", "how often it was tried"),
    _text("last_error", "m.last_error", "the last error"),
    _text("history", "m.history::text", "all attempts, as JSON"),
    _int("priority", "m.priority", "the message's priority"),
    _text("correlation_id", "m.correlation_id", "what the publisher correlates it with"),
    _text("tenant_id", "m.tenant_id", "the tenant it belongs to"),
    _time("published_at", "m.published_at", "when it was published"),
    _time("died_at", "m.moved_at", "when it died"),
)
STATISTICS = (
    _text("queue", "q.name", "the queue's name"),
    _text("topic", "q.topic_name", "the topic's name"),
    _long("pending", "s.pending_count", "waiting, blocked, delayed and retrying messages"),
    _long("scheduled", "s.scheduled_count", "those that are not due yet: delayed and retrying"),
    _long("processing", "s.processing_count", "claimed messages"),
    _long("completed", "s.completed_count", "done messages, as far as history goes back"),
    _long("dead", "s.dead_count", "dead letters"),
    _time("oldest_pending_at", "s.oldest_pending_at", "when the oldest pending was published"),
)
TASKS = (
    _text("id", "id", "the task's id"),
    _text("topic", "topic", "the task's topic"),
    _text("tenant_id", "tenant_id", "the tenant it belongs to"),
    Column("payload", BinaryType(), "payload", "the payload, as bytes"),
    _text("meta", "meta", "JSON beside the payload"),
    _int("priority", "priority", "higher goes first"),
    _text("dedupe_key", "dedupe_key", "a second one of the same tenant is refused"),
    _text("status", "status", "queued, leased, done, dead or expired"),
    _int("attempts", "attempts", "how often it has been reserved"),
    _int("max_attempts", "max_attempts", "how often it may be"),
    _time("available_at", "available_at", "not before"),
    _text("lease_owner", "lease_owner", "who works on it"),
    _time("lease_until", "lease_until", "until when"),
    _time("expires_at", "expires_at", "never delivered after"),
    _text("last_error", "last_error", "the last error"),
    _time("last_error_at", "last_error_at", "when that was"),
    _time("created_at", "created_at", "when it was enqueued"),
    _time("updated_at", "updated_at", "when it changed last"),
)
TASK_ATTEMPTS = (
    _long("id", "id", "the attempt's number in the log"),
    _text("task_id", "task_id", "the task"),
    _int("attempt_no", "attempt_no", "which attempt of it"),
    _text("reason", "reason", "why it failed"),
    _time("started_at", "started_at", "when it began"),
    _time("finished_at", "finished_at", "when it ended"),
    Column("success", BooleanType(), "success", "whether it succeeded"),
)
ENTITIES: dict[str, tuple[Column, ...]] = {
    "messages": MESSAGES,
    "queue": QUEUE,
    "receipts": RECEIPTS,
    "dead_letters": DEAD_LETTERS,
    "tasks": TASKS,
    "task_attempts": TASK_ATTEMPTS,
    "statistics": STATISTICS,
}


def schema(entity: str, names: Iterable[str] | None, *, kafka_headers: bool) -> StructType:
    """The columns that a read yields when the user declares no schema."""
    known = ENTITIES[entity]
    if names is None:
        chosen = [column for column in known if column.listed]
    else:
        chosen = [find(entity, name) for name in names]
    fields = [column.field for column in chosen]
    if kafka_headers and entity == "messages":
        fields = [
            StructField("headers", KAFKA_HEADERS) if each.name == "headers" else each
            for each in fields
        ]
    return StructType(fields)


def find(entity: str, name: str) -> Column:
    """A column by its name, whatever its case."""
    for column in ENTITIES[entity]:
        if column.name.lower() == name.lower():
            return column
    there = ", ".join(column.name for column in ENTITIES[entity])
    raise InvalidColumn(f"{entity} have no column {name}: there are {there}")


def check(entity: str, wanted: StructType) -> None:
    """Refuse a schema that this entity can't fill, while the job is planned."""
    for each in wanted.fields:
        column = find(entity, each.name)
        if not _fits(column, each.dataType):
            raise InvalidColumn(
                f"column {each.name} is {column.type.simpleString()}, "
                f"it can't be read as {each.dataType.simpleString()}: declare it so and convert it "
                "in a select (cast, from_json, parse_json)"
            )


def _fits(column: Column, wanted: DataType) -> bool:
    if column.name == "headers" and wanted == KAFKA_HEADERS:
        return True
    if isinstance(column.type, StringType) and isinstance(wanted, BinaryType):
        return True  # Kafka's own type of key and value
    if isinstance(column.type, IntegerType) and isinstance(wanted, LongType):
        return True
    return type(column.type) is type(wanted)
