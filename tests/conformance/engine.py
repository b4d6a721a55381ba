"""The real thing, called by its public names: one method for each step of the state machine."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from psycopg.types.json import Jsonb

from tests.conformance.model import RETRY_BASE, RETRY_CAP, Message, Row, Settings
from tests.fixtures.maintenance import maintain

if TYPE_CHECKING:
    from collections.abc import Iterator

    import psycopg


@dataclass(frozen=True, slots=True)
class Draft:
    """A message to be published; delay and expiry count from now."""

    colour: str = "red"
    priority: int = 0
    key: str | None = None
    delay: int | None = None
    expiry: int | None = None


class Seen(NamedTuple):
    """A message as the engine's views and message_state() show it."""

    id: int
    state: str | None
    placed: bool  # it is pending, and has a place beside the log
    rows: int  # how often queue_messages and dead_letter_queue list it
    status: str | None
    visible_at: datetime | None
    token: str | None
    attempts: int | None
    failures: int | None


class Counts(NamedTuple):
    """get_queue_statistics()."""

    pending: int
    processing: int
    completed: int
    total: int
    scheduled: int
    dead: int
    waiting: int
    blocked: int
    delayed: int
    retrying: int


class Engine:
    """The SQL interface through one session."""

    def __init__(self, conn: psycopg.Connection[Any]) -> None:
        self.conn = conn

    def _value(self, statement: str, *values: Any) -> Any:
        row = self.conn.execute(statement, values).fetchone()
        assert row is not None
        return row[0]

    def _list(self, statement: str, *values: Any) -> list[Any]:
        return [row[0] for row in self.conn.execute(statement, values).fetchall()]

    @contextmanager
    def transaction(self, *, kept: bool) -> Iterator[Self]:
        """Steps that are committed together, or undone together."""
        with self.conn.transaction(force_rollback=not kept):
            yield self

    def clock(self) -> datetime:
        return self._value("select penstock_data.clock()")

    def prepare(self) -> None:
        """Nobody waits for a lock, and no receipt is forgotten while a machine runs."""
        self.configure("lock_wait", "1 millisecond")  # a claim that meets another gives up at once
        self.configure("receipt_retention", "1 day")

    def configure(self, setting: str, value: str) -> None:
        self.conn.execute("select penstock.configure(%s, %s)", (setting, value))

    def create_queue(self, name: str, topic: str, settings: Settings, start_at: str) -> None:
        wanted = (
            None if settings.colour is None else Jsonb({"payload": {"colour": settings.colour}})
        )
        self.conn.execute(
            """select penstock.create_queue(%s, %s, max_delivery_attempts => %s, ordering => %s,
                   start_at => %s, retry_base_seconds => %s, retry_cap_seconds => %s,
                   retention => %s, filter => %s)""",
            (
                name,
                topic,
                settings.max_attempts,
                settings.ordering,
                start_at,
                int(RETRY_BASE.total_seconds()),
                int(RETRY_CAP.total_seconds()),
                settings.retention,
                wanted,
            ),
        )

    def delete_queue(self, name: str) -> None:
        self.conn.execute("select penstock.delete_queue(%s)", (name,))

    def create_topic(self, name: str) -> None:
        self.conn.execute("select penstock.create_topic(%s)", (name,))

    def delete_topic(self, name: str) -> None:
        self.conn.execute("select penstock.delete_topic(%s)", (name,))

    def publish(self, topic: str, draft: Draft, dedupe_key: str | None = None) -> int:
        return self._value(
            """select penstock.publish_message(%s, %s, key => %s, priority => %s,
                   deliver_after => penstock_data.clock() + make_interval(secs => %s),
                   expires_at => penstock_data.clock() + make_interval(secs => %s),
                   dedupe_key => %s)""",
            topic,
            Jsonb({"colour": draft.colour}),
            draft.key,
            draft.priority,
            draft.delay,
            draft.expiry,
            dedupe_key,
        )

    def publish_many(self, topic: str, drafts: list[Draft]) -> list[int]:
        return self._list(
            """select penstock.publish_messages(%s, %s, keys => %s, priorities => %s,
                   deliver_after => (
                       select array_agg(penstock_data.clock() + make_interval(secs => s) order by n)
                       from unnest(%s::int[]) with ordinality u(s, n)))""",
            topic,
            [Jsonb({"colour": draft.colour}) for draft in drafts],
            [draft.key for draft in drafts],
            [draft.priority for draft in drafts],
            [draft.delay for draft in drafts],
        )

    def stored(self, ids: list[int], began: int, step: int) -> list[Message]:
        """The messages as the log has them, in the order of their ids."""
        rows = self.conn.execute(
            """select id, priority, key, payload ->> 'colour', created_at, deliver_after, expires_at
               from penstock.messages where id = any (%s) order by id""",
            (ids,),
        ).fetchall()
        return [Message(*row, began=began, inserted=step, committed=step) for row in rows]

    def claim(self, queue: str, token: str, seconds: int, batch: int) -> list[Row]:
        rows = self.conn.execute(
            """select message_id, payload, key, priority, delivery_attempts, vt
               from penstock.consume_messages_batch(%s, %s, %s, %s)""",
            (queue, token, seconds, batch),
        ).fetchall()
        return [Row(*row) for row in rows]

    def ack(self, queue: str, message_id: int, token: str) -> bool:
        return self._value("select penstock.ack_message(%s, %s, %s)", queue, message_id, token)

    def ack_many(self, queue: str, ids: list[int], token: str) -> list[int]:
        return self._list("select penstock.ack_messages(%s, %s, %s)", queue, ids, token)

    def nack(self, queue: str, message_id: int, token: str, delay: int | None) -> bool:
        return self._value(
            "select penstock.nack_message(%s, %s, %s, %s, 'broken')",
            queue,
            message_id,
            token,
            delay,
        )

    def release(self, queue: str, message_id: int, token: str) -> bool:
        return self._value("select penstock.release_message(%s, %s, %s)", queue, message_id, token)

    def bury(self, queue: str, message_id: int, token: str) -> bool:
        return self._value("select penstock.bury_message(%s, %s, %s)", queue, message_id, token)

    def extend(self, queue: str, ids: list[int], token: str, seconds: int) -> dict[int, datetime]:
        statement = "select * from penstock.batch_extend_message_vt(%s, %s, %s, %s)"
        return dict(self.conn.execute(statement, (queue, ids, token, seconds)).fetchall())

    def requeue(self, queue: str, ids: list[int] | None) -> int:
        return self._value("select penstock.requeue_dlq_messages(%s, %s)", queue, ids)

    def purge_dead(self, queue: str, ids: list[int] | None) -> int:
        return self._value("select penstock.purge_dlq(%s, %s)", queue, ids)

    def purge(self, queue: str) -> int:
        return self._value("select penstock.purge_queue(%s)", queue)

    def cleanup(self, queue: str) -> int:
        return self._value("select penstock.cleanup_queue_messages(%s)", queue)

    def delete_completed(self, queue: str, message_id: int) -> int:
        done = self.conn.execute(
            """delete from penstock.queue_messages m using penstock.queues q
               where q.name = %s and m.queue_id = q.id and m.status = 'completed'
                 and m.message_id = %s""",
            (queue, message_id),
        )
        return done.rowcount

    def maintain(self) -> dict[str, int]:
        return maintain(self.conn)

    def browse(self, queue: str) -> list[int]:
        return self._list("select message_id from penstock.browse_messages(%s)", queue)

    def statistics(self, queue: str) -> tuple[datetime, Counts]:
        row = self.conn.execute(
            """select penstock_data.clock(), pending_count, processing_count, completed_count,
                   total_count, scheduled_count, dead_count, waiting_count, blocked_count,
                   delayed_count, retrying_count
               from penstock.get_queue_statistics(%s)""",
            (queue,),
        ).fetchone()
        assert row is not None
        return row[0], Counts(*row[1:])

    def look(self, queue: str, ids: list[int]) -> list[Seen]:
        """Where the engine has each of these messages, and every other it has in the queue."""
        rows = self.conn.execute(
            """with places as materialized (
                   select m.message_id, m.status, m.vt, m.consumer_token, m.delivery_attempts,
                       null::int as failures
                   from penstock.queue_messages m
                   where m.queue_id = (select q.id from penstock.queues q where q.name = %(queue)s)
                   union all
                   select d.message_id, 'dead', null, null, d.delivery_attempts,
                       jsonb_array_length(d.history)
                   from penstock.dead_letter_queue d where d.queue_name = %(queue)s
               )
               select coalesce(i.id, p.message_id),
                   penstock.message_state(%(queue)s, coalesce(i.id, p.message_id)),
                   coalesce(i.id, p.message_id) in (
                       select s.message_id from penstock_data.queues q
                       cross join lateral penstock_data.scheduled_messages(q.id) s
                       where q.name = %(queue)s),
                   count(p.message_id), min(p.status), min(p.vt), min(p.consumer_token),
                   min(p.delivery_attempts), min(p.failures)
               from unnest(%(ids)s::bigint[]) i(id) full join places p on p.message_id = i.id
               group by 1""",
            {"queue": queue, "ids": ids},
        ).fetchall()
        return [Seen(*row) for row in rows]


def seconds(number: int | None) -> timedelta | None:
    """A duration as the model counts it."""
    return None if number is None else timedelta(seconds=number)
