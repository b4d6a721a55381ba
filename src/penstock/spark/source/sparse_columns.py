"""Columns that hardly any message has a value in: headers, times and the like.

An empty column costs as much as a short value: the database sends a null for each row, and ADBC
stores it.  So columns that the latest messages leave empty are not selected.  One more column has
the ids of the messages that have a value there all the same, and those few are looked up.  The
result of a read does not depend on the guess.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import refusal
from penstock.spark.source import columns

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyspark.sql.types import StructType

    from penstock.spark.source.driver_connection import DriverConnection
    from penstock.spark.source.message_log import Piece, Scope

# The value that most messages have.
_USUAL: Mapping[str, int | None] = {
    "key": None,
    "headers": None,
    "priority": 0,
    "deliver_after": None,
    "expires_at": None,
    "correlation_id": None,
    "tenant_id": None,
}
_ENOUGH = 10_000
"""With fewer messages the question to the database costs more than it saves."""
# By a range of ids: to find the last so many in order, all of them would be looked at.
_SAMPLE = """
select count(*), {filled} from penstock.log m
where m.topic_id = any (%(topic_ids)s::bigint[]) and m.id > %(last)s - 2000 and m.id <= %(last)s
"""


def _value(column: str) -> str:
    """A column where it is unusual; null elsewhere."""
    return f"m.{column}" if _USUAL[column] is None else f"nullif(m.{column}, {_USUAL[column]})"


def guess(
    database: DriverConnection, scope: Scope, wanted: StructType, pieces: Sequence[Piece]
) -> tuple[str, ...]:
    """The columns of a read, by their names in its schema, that its latest messages don't use."""
    found = {name: columns.find("messages", name).name for name in wanted.fieldNames()}
    names = [name for name, column in found.items() if column in _USUAL]
    if sum(piece.through - piece.after for piece in pieces) < _ENOUGH or not names:
        return ()
    filled = ", ".join(f"bool_or({_value(found[name])} is not null)" for name in names)
    last = max(piece.through for piece in pieces)
    [(count, *used)] = database.rows(
        _SAMPLE.format(filled=filled), {"topic_ids": scope.topic_ids, "last": last}
    )
    unused = tuple(name for name, is_used in zip(names, used, strict=True) if not is_used)
    # Leaving out a single column gains nothing: the column of ids takes its place.
    return unused if count and len(unused) > 1 else ()


@dataclass(frozen=True, slots=True)
class SparseColumns:
    """The sparse columns of a task, and how to get those that are there."""

    names: tuple[str, ...]
    where: str

    @classmethod
    def among(cls, names: Sequence[str], where: str) -> SparseColumns | None:
        return cls(tuple(names), where) if names else None

    @property
    def _columns(self) -> list[columns.Column]:
        return [columns.find("messages", name) for name in self.names]

    @property
    def mark(self) -> str:
        """The last column of the query: ids of messages that have a value in a sparse column."""
        values = ", ".join(_value(each.name) for each in self._columns)
        return f"case when num_nonnulls({values}) > 0 then m.id end"

    def fill(self, marks: pa.Array, run: Callable[[str], pa.Table]) -> dict[str, pa.Array | None]:
        """The sparse columns of a batch; None where all rows have what is usual."""
        if marks.null_count == len(marks):
            return dict.fromkeys(self.names)
        ids = marks.drop_null()
        found = run(self._look_up(ids))
        if found.num_rows < len(ids):
            raise refusal("PS016", "messages were removed from the log while it was read", None)
        places = pc.index_in(marks, value_set=found.column(0).combine_chunks())
        return {
            name: _filled(found.column(number + 1).combine_chunks().take(places), each.name)
            for number, (name, each) in enumerate(zip(self.names, self._columns, strict=True))
        }

    def _look_up(self, ids: pa.Array) -> str:
        listed = ",".join(map(str, ids.to_pylist()))
        selected = ", ".join(each.sql for each in self._columns)
        return (
            f"select m.id, {selected} from penstock.log m "  # noqa: S608 - our own columns and ids
            f"where {self.where} and m.id = any ('{{{listed}}}'::bigint[])"
        )

    def usual(self, name: str, rows: int, kind: pa.DataType) -> pa.Array:
        """A sparse column of rows that all have what is usual."""
        value = _USUAL[columns.find("messages", name).name]
        return pa.nulls(rows, kind) if value is None else pa.repeat(pa.scalar(value, kind), rows)


def _filled(array: pa.Array, column: str) -> pa.Array:
    usual = _USUAL[column]
    return array if usual is None else array.fill_null(usual)
