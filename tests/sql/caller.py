"""The engine's functions by their public names, called on one session.

`mq("create_queue", "q")` gives the single value of a call, `mq.rows(...)` its rows with named
columns.  The few calls that nearly every test makes have a verb of their own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from psycopg.rows import namedtuple_row
from psycopg.types.json import Jsonb

if TYPE_CHECKING:
    from datetime import datetime

    import psycopg


class Caller:
    """A session that speaks to the engine."""

    def __init__(self, db: psycopg.Connection[Any]) -> None:
        self.db = db

    def __call__(self, function: str, *values: Any, **named: Any) -> Any:
        found = self.rows(function, *values, **named)
        assert len(found) == 1, found
        assert len(found[0]) == 1, found
        return found[0][0]

    def rows(self, function: str, *values: Any, **named: Any) -> list[Any]:
        words = ["%s"] * len(values) + [f"{name} => %s" for name in named]
        given = [_adapted(value) for value in (*values, *named.values())]
        return self.query(f"select * from penstock.{function}({', '.join(words)})", *given)

    def column(self, function: str, *values: Any, **named: Any) -> list[Any]:
        return [row[0] for row in self.rows(function, *values, **named)]

    def query(self, statement: str, *values: Any) -> list[Any]:
        with self.db.cursor(row_factory=namedtuple_row) as cursor:
            cursor.execute(statement.encode(), values or None)
            return cursor.fetchall()

    def value(self, statement: str, *values: Any) -> Any:
        return self.query(statement, *values)[0][0]

    def at(self, *, seconds: float) -> datetime:
        """A moment this far from the engine's now."""
        moment: datetime = self.value(
            "select clock_timestamp() + value::interval + make_interval(secs => %s) "
            "from penstock.configuration() where setting = 'clock_shift'",
            seconds,
        )
        return moment

    def publish(self, topic: str, payload: Any = 1, **options: Any) -> int:
        return int(self("publish_message", topic, Jsonb(payload), **options))

    def publish_many(self, topic: str, payloads: list[Any], **options: Any) -> list[int]:
        values = [Jsonb(payload) for payload in payloads]
        return self.column("publish_messages", topic, values, **options)

    def consume(self, queue: str, count: int = 10, *, token: str = "me", vt: int = 30) -> list[Any]:
        return self.rows("consume_messages_batch", queue, token, vt, count)

    def payloads(self, queue: str, count: int = 10, **options: Any) -> list[Any]:
        return [row.payload for row in self.consume(queue, count, **options)]

    def ack(self, queue: str, message_id: int, token: str = "me") -> bool:
        return bool(self("ack_message", queue, message_id, token))

    def nack(self, queue: str, message_id: int, token: str = "me", **options: Any) -> bool:
        return bool(self("nack_message", queue, message_id, token, **options))

    def state(self, queue: str, message_id: int) -> str | None:
        found: str | None = self("message_state", queue, message_id)
        return found

    def statistics(self, queue: str) -> Any:
        return self.rows("get_queue_statistics", queue)[0]

    def drain(self, queue: str, *, token: str = "drain", batch: int = 1000) -> list[Any]:
        """Consume and ack until nothing is left; the payloads in the order they came."""
        seen: list[Any] = []
        while found := self.consume(queue, batch, token=token):
            seen += [row.payload for row in found]
            self.column("ack_messages", queue, [row.message_id for row in found], token)
        return seen


def _adapted(value: Any) -> Any:
    return Jsonb(value) if isinstance(value, dict) else value
