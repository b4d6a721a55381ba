"""Publishing a batch of rows, once: what was written under (app, version) is not written again.

A row that the engine would refuse must not stop the others of its batch.  Executors find such rows
before anything is written, each with its reason; what they run uses nothing of Penstock.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa
from pyspark.sql import functions as f

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import DataFrame

    from penstock.spark.pipelines.run import Run

# What the sink knows of a message; whatever else a batch has stays behind.
MESSAGE = (
    "topic",
    "value",
    "key",
    "headers",
    "priority",
    "deliver_after",
    "expires_at",
    "tenant_id",
    "correlation_id",
)
REASON = "_reason"
LARGEST_PAYLOAD = 16 * 1024 * 1024
_LONGEST_TEXT = 1024
_PRIORITIES = range(-1000, 1001)
_decode = msgspec.json.decode
_LOOKED_AT = frozenset(
    {REASON, "topic", "value", "key", "tenant_id", "correlation_id", "priority", "headers"}
)


@dataclass(frozen=True, slots=True)
class Checked:
    """A batch split into rows to publish and rows with the reason why not."""

    good: DataFrame
    bad: DataFrame
    whole: DataFrame

    def forget(self) -> None:
        self.whole.unpersist()


def check(frame: DataFrame) -> Checked:
    """Split off the rows that the database would refuse; computed once for both parts."""
    if REASON not in frame.columns:
        frame = frame.withColumn(REASON, f.lit(None).cast("string"))
    whole = frame.mapInArrow(checker(), frame.schema).persist()
    reason = f.col(REASON)
    return Checked(whole.where(reason.isNull()), whole.where(reason.isNotNull()), whole)


def publish(run: Run, frame: DataFrame, app: str, version: int) -> None:
    """Write messages in one transaction, unless this batch is there already."""
    columns = [name for name in MESSAGE if name in frame.columns]
    (
        frame.select(*columns)
        .write.format("penstock")
        .mode("append")
        .option("url", run.url)
        .option("txnAppId", app)
        .option("txnVersion", str(version))
        .save()
    )


def checker(
    limit: int = LARGEST_PAYLOAD,
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """What `mapInArrow` runs: every row again, with its reason filled in if it has a fault."""

    def check(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield with_reasons(batch, limit)

    return check


def with_reasons(batch: pa.RecordBatch, limit: int = LARGEST_PAYLOAD) -> pa.RecordBatch:
    columns = {
        name: batch.column(name).to_pylist() for name in batch.schema.names if name in _LOOKED_AT
    }
    reasons = [
        before or fault({name: values[row] for name, values in columns.items()}, limit)
        for row, before in enumerate(columns[REASON])
    ]
    place = batch.schema.get_field_index(REASON)
    return batch.set_column(place, REASON, pa.array(reasons, pa.string()))


def fault(row: dict[str, Any], limit: int = LARGEST_PAYLOAD) -> str | None:
    """What is wrong with a row about to be published; None: nothing."""
    if not row.get("topic", "-"):
        return "no topic: the expression for it is null"
    return (
        _payload_fault(row.get("value"), limit)
        or _headers_fault(row.get("headers"))
        or _text_fault(row)
        or _priority_fault(row.get("priority"))
    )


def _payload_fault(value: str | None, limit: int) -> str | None:
    if value is None:
        return "the payload is null"
    if len(value) > limit:
        return f"the payload has {len(value):,} characters, at most {limit:,} are allowed"
    return _json_fault(value, "the payload")


def _headers_fault(headers: Any) -> str | None:
    if headers is None or not isinstance(headers, str):
        return None
    found = _json_fault(headers, "the headers")
    if found is None and not headers.lstrip().startswith("{"):
        return "the headers must be a JSON object"
    return found


def _json_fault(text: str, what: str) -> str | None:
    try:
        _decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError) as problem:
        return f"{what} must be JSON: {problem}"
    if "\\u0000" in text and "\x00" in _all_text(_decode(text)):
        return f"{what} can't hold \\u0000, which PostgreSQL can't store"
    return None


def _all_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        return "".join(f"{key}{_all_text(item)}" for key, item in value.items())
    return "".join(map(_all_text, value)) if isinstance(value, list) else ""


def _text_fault(row: dict[str, Any]) -> str | None:
    for name in ("key", "tenant_id", "correlation_id"):
        text = row.get(name)
        if text is None:
            continue
        if len(text.encode()) > _LONGEST_TEXT:
            return f"{name} has more than {_LONGEST_TEXT} bytes"
        if "\x00" in text:
            return f"{name} holds a NUL character, which PostgreSQL can't store"
    return None


def _priority_fault(priority: int | None) -> str | None:
    if priority is None or priority in _PRIORITIES:
        return None
    return f"priority {priority} is not between -1000 and 1000"
