"""Where a message came from, kept in its headers; executors run this without Penstock."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ID, TOPIC, TIME = "original_id", "original_topic", "original_published_at"


def marked(headers: str | None, **origin: Any) -> str:
    """Headers with the origin; one that is there stays: a replay of a replay knows the first."""
    found = json.loads(headers) if headers else {}
    for name, value in origin.items():
        if value is not None:
            found.setdefault(name, value)
    return json.dumps(found, ensure_ascii=False)


def marker() -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """What `mapInArrow` runs over messages of the log or an archive, with their headers marked."""

    def mark(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            rows = batch.select(["headers", "offset", "topic", "timestamp"]).to_pylist()
            headers = [
                marked(
                    row["headers"],
                    original_id=row["offset"],
                    original_topic=row["topic"],
                    original_published_at=row["timestamp"].isoformat()
                    if row["timestamp"]
                    else None,
                )
                for row in rows
            ]
            place = batch.schema.get_field_index("headers")
            yield batch.set_column(place, "headers", pa.array(headers, pa.string()))

    return mark


def as_json(value: Any) -> str:
    """Any payload as JSON text: JSON stays, other text becomes a string, other bytes base64."""
    if isinstance(value, bytes | bytearray | memoryview):
        try:
            value = bytes(value).decode()
        except UnicodeDecodeError:
            return json.dumps({"base64": base64.b64encode(bytes(value)).decode()})
    if value is None:
        return "null"
    if not isinstance(value, str):
        return json.dumps(value, ensure_ascii=False, default=str)
    try:
        json.loads(value, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return json.dumps(value, ensure_ascii=False)
    return value


def _refuse(name: str) -> Any:
    raise ValueError(name)
