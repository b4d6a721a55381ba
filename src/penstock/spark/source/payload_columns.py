"""A DataFrame's columns as a message's: JSON from strings, structs, maps or variants."""

from __future__ import annotations

import base64
import datetime as dt
import decimal
import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegralType,
    MapType,
    StringType,
    StructType,
    TimestampType,
    VariantType,
    VariantVal,
)

from penstock.spark.source.columns import InvalidColumn

if TYPE_CHECKING:
    from collections.abc import Callable

JSON = pa.json_(pa.string())
# Column of a DataFrame, in lower case → column of the stage.
_NAMES = {
    "topic": "topic",
    "value": "payload",
    "payload": "payload",
    "headers": "headers",
    "key": "key",
    "priority": "priority",
    "deliver_after": "deliver_after",
    "expires_at": "expires_at",
    "correlation_id": "correlation_id",
    "tenant_id": "tenant_id",
    "tenant": "tenant_id",
}
# What a read yields and a write has no use for: so a read can be written as it is.
_PASSED_OVER = {"partition", "offset", "timestamp", "timestamptype"}
WRITABLE = tuple(_NAMES)

_TYPES: dict[str, pa.DataType] = {
    "topic": pa.string(),
    "payload": JSON,
    "headers": JSON,
    "key": pa.string(),
    "priority": pa.int32(),
    "deliver_after": pa.timestamp("us", tz="UTC"),
    "expires_at": pa.timestamp("us", tz="UTC"),
    "correlation_id": pa.string(),
    "tenant_id": pa.string(),
}


class StageColumns:
    """Which column of a DataFrame becomes what; worked out and checked while a job is planned."""

    def __init__(self, schema: StructType, *, json_values: bool, topic: str | None) -> None:
        self._parts: list[tuple[int, str, Callable[[Any], Any]]] = []
        for place, field in enumerate(schema.fields):
            target = _NAMES.get(field.name.lower())
            if target is None:
                _refuse(field.name)
            # As with Kafka, the option goes before the column.
            elif target != "topic" or topic is None:
                convert = _converter(field.name, target, field.dataType, json_values=json_values)
                self._parts.append((place, target, convert))
        self._check()

    def _check(self) -> None:
        targets = [target for _place, target, _convert in self._parts]
        if "payload" not in targets:
            raise InvalidColumn(
                "a message needs a payload: name a column value (or payload) with JSON text, "
                "a struct, a map, an array or a variant"
            )
        for target in set(targets):
            if targets.count(target) > 1:
                raise InvalidColumn(f"two columns both mean {target}: leave one out")

    @property
    def has_topic(self) -> bool:
        return any(target == "topic" for _place, target, _convert in self._parts)

    @property
    def schema(self) -> pa.Schema:
        fields = [pa.field(target, _TYPES[target]) for _place, target, _convert in self._parts]
        return pa.schema([pa.field("part", pa.int64()), *fields])

    def staged(self, batch: pa.RecordBatch, part: int) -> pa.RecordBatch:
        """The same rows in the stage's columns."""
        arrays = [convert(batch.column(place)) for place, _target, convert in self._parts]
        number = pa.array([part], pa.int64()).take(
            pa.nulls(batch.num_rows, pa.int64()).fill_null(0)
        )
        return pa.RecordBatch.from_arrays([number, *arrays], schema=self.schema)


def _refuse(name: str) -> None:
    if name.lower() not in _PASSED_OVER:
        raise InvalidColumn(
            f"a message has no column {name}: there are {', '.join(WRITABLE)}; "
            "put what belongs to the payload into a struct named value"
        )


def _converter(
    name: str, target: str, kind: DataType, *, json_values: bool
) -> Callable[[Any], Any]:
    match target:
        case "payload":
            return _payload(name, kind, json_values=json_values)
        case "headers":
            return _headers(name, kind)
        case "priority" if not isinstance(kind, IntegralType):
            raise InvalidColumn(f"column {name} is {kind.simpleString()}: an int is needed")
        case "deliver_after" | "expires_at" if not isinstance(kind, TimestampType):
            raise InvalidColumn(f"column {name} is {kind.simpleString()}: a timestamp is needed")
        case "topic" | "key" | "correlation_id" | "tenant_id" if not isinstance(
            kind, StringType | BinaryType | IntegralType
        ):
            raise InvalidColumn(f"column {name} is {kind.simpleString()}: a string is needed")
        case _:
            wanted = _TYPES[target]
            return lambda array: array if array.type == wanted else array.cast(wanted)


def _payload(name: str, kind: DataType, *, json_values: bool) -> Callable[[Any], Any]:
    if isinstance(kind, StringType | BinaryType):
        return _from_text if json_values else _quoted
    if isinstance(kind, VariantType):
        return _from_variant
    if isinstance(kind, StructType | MapType | ArrayType):
        return _encoded
    raise InvalidColumn(
        f"column {name} is {kind.simpleString()}: JSON text, a struct, a map, an array or a "
        "variant is needed; make one with to_json or struct"
    )


def _headers(name: str, kind: DataType) -> Callable[[Any], Any]:
    if isinstance(kind, StringType):
        return _from_text
    if isinstance(kind, VariantType):
        return _from_variant
    if isinstance(kind, StructType | MapType):
        return _encoded
    pair = kind.elementType if isinstance(kind, ArrayType) else None
    if isinstance(pair, StructType) and pair.fieldNames() == ["key", "value"]:
        return _from_kafka_headers
    raise InvalidColumn(
        f"column {name} is {kind.simpleString()}: JSON text, a map<string,string>, a struct or "
        "Kafka's array<struct<key,value>> is needed"
    )


def _from_text(array: Any) -> Any:
    return pa.ExtensionArray.from_storage(JSON, array.cast(pa.string()))


def _quoted(array: Any) -> Any:
    return _json(array.cast(pa.string()).to_pylist())


def _from_variant(array: Any) -> Any:
    texts = [
        None if each is None else VariantVal(each["value"], each["metadata"]).toJson()
        for each in array.to_pylist()
    ]
    return pa.ExtensionArray.from_storage(JSON, pa.array(texts, pa.string()))


def _encoded(array: Any) -> Any:
    # Arrow gives a map as pairs.
    if pa.types.is_map(array.type):
        return _json([None if row is None else dict(row) for row in array.to_pylist()])
    return _json(array.to_pylist(maps_as_pydicts="strict"))


def _from_kafka_headers(array: Any) -> Any:
    return _json(
        [
            None if row is None else {pair["key"]: _header(pair["value"]) for pair in row}
            for row in array.to_pylist()
        ]
    )


def _header(value: Any) -> Any:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def _json(rows: list[Any]) -> Any:
    texts = [
        None if row is None else json.dumps(row, default=_plain, ensure_ascii=False) for row in rows
    ]
    return pa.ExtensionArray.from_storage(JSON, pa.array(texts, pa.string()))


def _plain(value: Any) -> Any:
    """What JSON has no type for, as Spark's to_json writes it."""
    match value:
        case dt.datetime() | dt.date() | dt.time():
            return value.isoformat()
        case decimal.Decimal():
            return int(value) if value == value.to_integral_value() else float(value)
        case bytes():
            return base64.b64encode(value).decode()
        case dt.timedelta():
            return value.total_seconds()
        case _:
            return str(value)
