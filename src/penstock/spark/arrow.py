"""The Arrow types in which Spark takes the columns of an entity.

Apart from the columns themselves, because most of the processes that Spark starts never see a row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from penstock.spark.columns import KAFKA_HEADERS
from penstock.spark.errors import InvalidColumn

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

_TYPES: dict[str, pa.DataType] = {
    "string": pa.string(),
    "bigint": pa.int64(),
    "int": pa.int32(),
    "boolean": pa.bool_(),
    "binary": pa.binary(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    KAFKA_HEADERS.simpleString(): pa.list_(
        pa.field(
            "element",
            pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]),
        )
    ),
}


def arrow_type(wanted: DataType) -> pa.DataType:
    """The Arrow type in which Spark takes a column."""
    name = wanted.simpleString()
    if name not in _TYPES:
        raise InvalidColumn(f"{name} can't be read")
    return _TYPES[name]


def arrow_schema(wanted: StructType) -> pa.Schema:
    """The very schema that Spark compares the first batch with."""
    return pa.schema(
        [pa.field(each.name, arrow_type(each.dataType), each.nullable) for each in wanted.fields]
    )
