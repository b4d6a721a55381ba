"""From files with Kafka's columns: key, value, topic, partition, offset, timestamp, headers."""

# ruff: noqa: A002 - format is Spark's word

from __future__ import annotations

import base64 as codec
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Unpack

import pyarrow as pa
from pyspark.sql import functions as f

from penstock.errors import InvalidSetting
from penstock.spark.pipelines.ingest import Mapping, ingest
from penstock.spark.pipelines.message_origin import as_json, marked

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pyspark.sql import DataFrame

    from penstock.spark.pipelines.run import RunOptions, Summary

_COLUMNS = ("topic", "value", "key", "headers", "_line", "_file", "_reason")
_OUT = ", ".join(f"{name} string" for name in _COLUMNS)


def migrate_kafka(
    source: str | Sequence[str],
    topic: str,
    *,
    format: str | None = None,
    base64: bool = False,
    **run: Unpack[RunOptions],
) -> Summary:
    """Publish records that were exported from Kafka as JSON lines, CSV or Parquet, each file once.

    `base64`: key and value are base64 in the files, as some exporters write them.
    """
    return ingest(source, topic, format=format, mapping=_KafkaMapping(base64=base64), **run)


@dataclass(frozen=True, slots=True)
class _KafkaMapping(Mapping):
    """Kafka's columns as a message's."""

    base64: bool = False

    @property
    def needs_columns(self) -> bool:
        return True

    def apply(self, frame: DataFrame, topic: str | None) -> DataFrame:
        if "value" not in frame.columns:
            raise InvalidSetting(
                f"these files have no column value; they have {', '.join(frame.columns)}"
            )
        for name in ("_line", "_file", "_reason"):
            if name not in frame.columns:
                frame = frame.withColumn(name, f.lit(None).cast("string"))
        return frame.mapInArrow(converter(topic, base64=self.base64), _OUT)


def converter(
    topic: str | None, *, base64: bool
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """What `mapInArrow` runs."""

    def convert(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            rows = [record(row, topic, base64=base64) for row in batch.to_pylist()]
            yield pa.RecordBatch.from_pylist(rows, schema=_SCHEMA)

    return convert


_SCHEMA = pa.schema(
    [
        (name, pa.string())
        for name in ("topic", "value", "key", "headers", "_line", "_file", "_reason")
    ]
)


def record(row: dict[str, Any], topic: str | None, *, base64: bool) -> dict[str, Any]:
    """One record of Kafka as a message; a tombstone (no value) becomes the JSON null."""
    about = {name: row.get(name) for name in ("_line", "_file", "_reason")}
    try:
        key, value = (_bytes(row.get(name), base64=base64) for name in ("key", "value"))
        stamp: Any = row.get("timestamp")
        return about | {
            "topic": topic or row.get("topic"),
            "value": as_json(value),
            "key": None if key is None else _text(key),
            "headers": marked(
                as_json(_headers(row.get("headers"))),
                original_id=_whole(row.get("offset")),
                original_topic=f"kafka:{row.get('topic') or ''}",
                original_partition=_whole(row.get("partition")),
                original_published_at=stamp.isoformat() if hasattr(stamp, "isoformat") else stamp,
            ),
        }
    except ValueError as problem:
        return about | {"_reason": str(problem)}


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _bytes(value: Any, *, base64: bool) -> Any:
    if not base64 or value is None:
        return value
    try:
        return codec.b64decode(value, validate=True)
    except ValueError:
        raise ValueError("not base64") from None


def _headers(found: Any) -> dict[str, Any]:
    """Kafka's pairs, a map, or JSON text; the last of several with one name counts."""
    if isinstance(found, str):
        found = json.loads(found)
    if not found:
        return {}
    pairs = (
        found.items()
        if isinstance(found, dict)
        else ((each["key"], each["value"]) for each in found)
    )
    return {
        name: value.decode("utf-8", "replace") if isinstance(value, bytes) else value
        for name, value in pairs
    }


def _whole(value: Any) -> Any:
    return int(value) if isinstance(value, str) and value.lstrip("-").isdigit() else value
