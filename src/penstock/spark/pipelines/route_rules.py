"""Which messages go where, and as what: by SQL expressions, or by a Python function."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import functions as f

from penstock.errors import InvalidSetting

if TYPE_CHECKING:
    from collections.abc import Mapping as MappingOf
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame

ROUTED_COLUMNS = (
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


@dataclass(frozen=True, slots=True)
class Rule:
    """One way out.  What is None stays as it was in the message."""

    to: str
    """The topic's name; with `to_sql` set, unused."""
    where: str | None = None
    """Only messages for which this is true."""
    payload: str | None = None
    """The new payload: JSON text, a struct, a map or an array."""
    key: str | None = None
    headers: MappingOf[str, str] = field(default_factory=dict)
    """Headers to add or to change, each by an expression."""
    priority: str | None = None
    deliver_after: str | None = None
    tenant: str | None = None
    to_sql: str | None = None
    """The topic by an expression, for a split by content."""

    def apply(self, frame: DataFrame) -> DataFrame:
        """The messages that this rule sends; `offset` still says which one each came from."""
        if self.where is not None:
            frame = frame.where(self.where)
        topic = f.lit(self.to) if self.to_sql is None else f.expr(self.to_sql).cast("string")
        return frame.select(
            "offset",
            topic.alias("topic"),
            _or_as_it_was(self.payload, "value", as_text=True).alias("value"),
            _or_as_it_was(self.key, "key", "string").alias("key"),
            self._headers().alias("headers"),
            _or_as_it_was(self.priority, "priority", "int").alias("priority"),
            _or_as_it_was(self.deliver_after, "deliver_after", "timestamp").alias("deliver_after"),
            _or_as_it_was(self.tenant, "tenant_id", "string").alias("tenant_id"),
            "correlation_id",
        )

    def _headers(self) -> Column:
        """New headers go over the old ones; what JSON they held beside stays."""
        if not self.headers:
            return f.col("headers")
        before = f.coalesce(
            f.from_json("headers", "map<string,string>"), f.create_map().cast("map<string,string>")
        )
        named = [
            part
            for name, sql in self.headers.items()
            for part in (f.lit(name), f.expr(sql).cast("string"))
        ]
        names = f.array(*(f.lit(name) for name in self.headers))
        kept = f.map_filter(before, lambda name, _value: ~f.array_contains(names, name))
        return f.to_json(f.map_concat(kept, f.create_map(*named)))


def _or_as_it_was(
    sql: str | None, column: str, kind: str | None = None, *, as_text: bool = False
) -> Column:
    if sql is None:
        return f.col(column)
    found = f.expr(sql)
    if as_text:
        return _text(found)
    return found.cast(kind) if kind else found


def _text(found: Column) -> Column:
    """JSON text from whatever the expression yields; Spark decides when it knows the type."""
    return f.call_function("to_json", found) if _is_made(found) else found.cast("string")


def _is_made(found: Column) -> bool:
    """Does the expression make a struct, a map or an array?"""
    shown = str(found)
    return any(word in shown for word in ("struct(", "map(", "array(", "named_struct("))


def load_rules(path: str | Path) -> list[Rule]:
    """Rules of a TOML or JSON file: a list named `rule` of tables with the fields of Rule."""
    text = Path(path).read_text()
    try:
        found = json.loads(text) if str(path).endswith(".json") else tomllib.loads(text)
    except ValueError as problem:
        raise InvalidSetting(f"the rules in {path} can't be read: {problem}") from None
    listed = found.get("rule") if isinstance(found, dict) else None
    if not isinstance(listed, list) or not listed:
        raise InvalidSetting(f'{path} has no rules: write [[rule]] tables with "to" and "where"')
    return [_rule(each, path) for each in listed]


def _rule(given: Any, path: str | Path) -> Rule:
    known = {each.name for each in fields(Rule)}
    unknown = set(given) - known
    if unknown or not (given.get("to") or given.get("to_sql")):
        what = f"no field {', '.join(sorted(unknown))}" if unknown else "neither to nor to_sql"
        raise InvalidSetting(f"a rule in {path} has {what}; a rule has {', '.join(sorted(known))}")
    return Rule(**({"to": ""} | given))


def topics_of(rules: Sequence[Rule]) -> set[str]:
    return {rule.to for rule in rules if rule.to_sql is None}


def function_runner(
    function: Function,
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
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
