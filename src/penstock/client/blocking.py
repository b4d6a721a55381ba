"""Run a call on a blocking connection."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from psycopg.rows import tuple_row

from penstock.errors import translated

if TYPE_CHECKING:
    from psycopg import Connection

    from penstock.client.calls import Call

T = TypeVar("T")


def run(connection: Connection[Any], call: Call[T]) -> T:
    """Send the call and read its answer; the driver's errors become Penstock's."""
    with translated(), connection.cursor(row_factory=tuple_row) as cursor:
        cursor.execute(call.sql, call.parameters)
        return call.read(cursor.fetchall())
