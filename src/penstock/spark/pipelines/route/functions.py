"""Routing by a Python function, on executors: a message in, any number of messages out."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

OUT = (
    "offset bigint, topic string, value string, key string, headers string, priority int, "
    "deliver_after timestamp, tenant_id string, correlation_id string, _reason string"
)
_SCHEMA = pa.schema(
    [
        ("offset", pa.int64()),
        ("topic", pa.string()),
        ("value", pa.string()),
        ("key", pa.string()),
        ("headers", pa.string()),
        ("priority", pa.int32()),
        ("deliver_after", pa.timestamp("us", tz="UTC")),
        ("tenant_id", pa.string()),
        ("correlation_id", pa.string()),
        ("_reason", pa.string()),
    ]
)
_TAKEN_OVER = ("key", "headers", "priority", "tenant_id", "correlation_id")

Function = Callable[[dict[str, Any]], Any]


def runner(function: Function) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """What `mapInArrow` runs."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            out = [made for row in batch.to_pylist() for made in outcome(function, row)]
            yield pa.RecordBatch.from_pylist(out, schema=_SCHEMA)

    return run


def outcome(function: Function, row: dict[str, Any]) -> list[dict[str, Any]]:
    """What becomes of one message: any number of new ones, or the reason why it failed."""
    try:
        message = row | {
            "payload": json.loads(row["value"]),
            "headers": json.loads(row["headers"]) if row["headers"] else {},
        }
        return [_made(row, each) for each in _listed(function(message))]
    # Whatever a user's function raises concerns its message alone.
    except Exception as problem:  # noqa: BLE001
        return [{"offset": row["offset"], "_reason": f"{type(problem).__name__}: {problem}"}]


def _listed(found: Any) -> list[Any]:
    if found is None:
        return []
    return [found] if isinstance(found, dict) else list(found)


def _made(row: dict[str, Any], made: Any) -> dict[str, Any]:
    """A message out of what the function gave; what it does not say stays as it was."""
    if not isinstance(made, dict) or "topic" not in made:
        raise TypeError(
            'a routing function returns dicts with "topic" and "payload", a list of them, or None'
        )
    unknown = made.keys() - {
        "topic",
        "payload",
        "key",
        "headers",
        "priority",
        "deliver_after",
        "tenant_id",
        "correlation_id",
    }
    if unknown:
        raise TypeError(f"a message has no {', '.join(sorted(unknown))}")
    kept = {name: row[name] for name in _TAKEN_OVER}
    headers = made.get("headers", kept["headers"])
    return {
        **kept,
        **{name: value for name, value in made.items() if name != "payload"},
        "offset": row["offset"],
        "value": json.dumps(made["payload"], ensure_ascii=False)
        if "payload" in made
        else row["value"],
        "headers": headers
        if headers is None or isinstance(headers, str)
        else json.dumps(headers, ensure_ascii=False),
    }
