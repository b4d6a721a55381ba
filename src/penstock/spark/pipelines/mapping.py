"""From the columns of a table to those of a message: each by an SQL expression."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as f

from penstock.errors import InvalidSetting

if TYPE_CHECKING:
    from collections.abc import Mapping as MappingOf
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame

# What is about a row and not of it; never part of a payload.
INTERNAL = ("_line", "_file", "_corrupt", "_reason")


@dataclass(frozen=True, slots=True)
class Mapping:
    """SQL expressions over the row's columns; what is None is not set on the message."""

    key: str | None = None
    headers: MappingOf[str, str] = field(default_factory=dict)
    priority: str | None = None
    deliver_after: str | None = None
    tenant: str | None = None
    payload: Sequence[str] | str | None = None
    """Columns that make up the payload, or an expression for all of it; None: the whole row."""

    @property
    def needs_columns(self) -> bool:
        """Does any expression look into the row?"""
        return bool(
            self.headers
            or self.key
            or self.priority
            or self.deliver_after
            or self.tenant
            or self.payload
        )

    def apply(self, frame: DataFrame, topic: str | None) -> DataFrame:
        """The columns of messages, and those about the row; topic None: the row has it."""
        columns: list[Column] = [
            f.lit(topic).alias("topic") if topic is not None else f.col("topic"),
            self._payload(frame).alias("value"),
            _expression(self.key, "string").alias("key"),
            self._headers().alias("headers"),
            _expression(self.priority, "int").alias("priority"),
            _expression(self.deliver_after, "timestamp").alias("deliver_after"),
            _expression(self.tenant, "string").alias("tenant_id"),
        ]
        kept = [f.col(name) for name in INTERNAL if name in frame.columns]
        try:
            mapped = frame.select(*columns, *kept)
            _ = mapped.schema
        # Connect and classic Spark raise differently.
        except Exception as problem:  # noqa: BLE001
            raise InvalidSetting(_unmappable(problem, frame)) from None
        return mapped

    def _payload(self, frame: DataFrame) -> Column:
        if isinstance(self.payload, str):
            return f.expr(self.payload).cast("string")
        if self.payload is None and "_line" in frame.columns:
            return f.col("_line")
        names = list(self.payload or [name for name in frame.columns if name not in INTERNAL])
        return f.to_json(
            f.struct(*(f.col(f"`{name}`") for name in names)), {"ignoreNullFields": "false"}
        )

    def _headers(self) -> Column:
        if not self.headers:
            return f.lit(None).cast("string")
        named: list[Any] = [
            f.expr(expression).alias(name) for name, expression in self.headers.items()
        ]
        return f.to_json(f.struct(*named))


def _expression(text: str | None, kind: str) -> Column:
    return (f.lit(None) if text is None else f.expr(text)).cast(kind)


def _unmappable(problem: Exception, frame: DataFrame) -> str:
    shown = ", ".join(name for name in frame.columns if name not in INTERNAL)
    reason = str(problem).strip().splitlines()[0]
    return f"the mapping does not fit the data: {reason}\nThe columns are: {shown}"
