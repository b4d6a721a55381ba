"""The same steps through the Python door: the blocking client, wherever it has a method for one.

What looks at the outcome stays in SQL, on a session of its own: `look`, `stored`, `clock`.
"""

from __future__ import annotations

from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import psycopg

import penstock
from penstock.client import calls
from tests.conformance.engine import Counts, Draft, Engine, seconds
from tests.conformance.model import RETRY_BASE, RETRY_CAP, Row, Settings

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from penstock.models import ClaimedMessage
    from penstock.sync import Client, Message

    Held = dict[tuple[str, int, str], Message[Any]]


class ClientEngine(Engine):
    """A client with its own connections, or inside the transaction that is open on `conn`."""

    def __init__(
        self,
        client: Client,
        conn: psycopg.Connection[Any],
        *,
        inside: bool = False,
        held: Held | None = None,
    ) -> None:
        super().__init__(conn)
        self.client = client
        self.held: Held = {} if held is None else held
        self._connection = conn if inside else None
        self._turn = False

    def inside(self, conn: psycopg.Connection[Any]) -> ClientEngine:
        """The same client, in the transaction of that session."""
        return ClientEngine(self.client, conn, inside=True, held=self.held)

    @contextmanager
    def transaction(self, *, kept: bool) -> Iterator[ClientEngine]:  # type: ignore[override]
        with self.client.transaction() as conn:
            yield self.inside(conn)
            if not kept:
                raise psycopg.Rollback

    # Topics and queues

    def configure(self, setting: str, value: str) -> None:
        self.client.run(calls.configure(setting, value))

    def create_topic(self, name: str) -> None:
        self.client.create_topic(name)

    def delete_topic(self, name: str) -> None:
        self.client.delete_topic(name)

    def create_queue(self, name: str, topic: str, settings: Settings, start_at: str) -> None:
        colour = settings.colour
        self.client.create_queue(
            name,
            topic=topic,
            max_delivery_attempts=settings.max_attempts,
            ordering=settings.ordering,
            start_at=start_at,
            retry_base=RETRY_BASE,
            retry_cap=RETRY_CAP,
            retention=settings.retention,
            filter=None if colour is None else {"payload": {"colour": colour}},
        )

    def delete_queue(self, name: str) -> None:
        self.client.delete_queue(name)

    # Publishing

    def publish(self, topic: str, draft: Draft, dedupe_key: str | None = None) -> int:
        return self.client.publish(
            topic,
            {"colour": draft.colour},
            key=draft.key,
            priority=draft.priority,
            delay=seconds(draft.delay),
            expires_in=seconds(draft.expiry),
            dedupe_key=dedupe_key,
            connection=self._connection,
        )

    def publish_many(self, topic: str, drafts: list[Draft]) -> list[int]:
        published = self.client.publish_many(
            topic,
            [{"colour": draft.colour} for draft in drafts],
            keys=[draft.key for draft in drafts],
            priorities=[draft.priority for draft in drafts],
            delays=[seconds(draft.delay) for draft in drafts],
            connection=self._connection,
        )
        return list(published.ids)

    def publish_stream(self, topic: str, drafts: list[Draft]) -> int:
        """With COPY, which tells how many, and not which."""
        now = self.clock()

        def later(number: int | None) -> datetime | None:
            return None if number is None else now + timedelta(seconds=number)

        messages = (
            penstock.Outgoing(
                {"colour": draft.colour},
                key=draft.key,
                priority=draft.priority,
                deliver_after=later(draft.delay),
                expires_at=later(draft.expiry),
            )
            for draft in drafts
        )
        return self.client.publish_stream(topic, messages, batch_size=3)

    def besides(self, topic: str, known: list[int]) -> list[int]:
        """The ids of a topic's other messages."""
        return self._list(
            """select m.id from penstock.messages m join penstock.topics t on t.id = m.topic_id
               where t.name = %s and m.id <> all (%s) order by m.id""",
            topic,
            known,
        )

    # Claiming, and what becomes of a claim: in turns by a message's own method and by its id, of
    # which the client makes different statements.

    def claim(self, queue: str, token: str, seconds: int, batch: int) -> list[Row]:
        lease = timedelta(seconds=seconds)
        if self._connection is not None:
            call = calls.consume_batch(queue, token, lease, batch)
            return [as_row(each) for each in self.client.run(call, connection=self._connection)]
        messages = self.client.claim(queue, count=batch, claim_for=lease, token=token)
        self.hold(messages)
        return [
            Row(each.id, each.payload, each.key, each.priority, each.attempt, each.claimed_until)
            for each in messages
        ]

    def hold(self, messages: list[Message[Any]]) -> None:
        self.held |= {(each.queue, each.id, each.token): each for each in messages}

    def _message(self, queue: str, message_id: int, token: str) -> Message[Any] | None:
        self._turn = not self._turn
        return self.held.get((queue, message_id, token)) if self._turn else None

    def ack(self, queue: str, message_id: int, token: str) -> bool:
        if message := self._message(queue, message_id, token):
            return message.ack(self._connection)
        return bool(self.ack_many(queue, [message_id], token))

    def ack_many(self, queue: str, ids: list[int], token: str) -> list[int]:
        return list(self.client.ack_many(queue, ids, token, connection=self._connection))

    def nack(self, queue: str, message_id: int, token: str, delay: int | None) -> bool:
        if message := self._message(queue, message_id, token):
            return message.nack(seconds(delay), "broken", connection=self._connection)
        failed = self.client.nack_many(
            queue,
            [message_id],
            token,
            delay=seconds(delay),
            error=ValueError("broken"),
            connection=self._connection,
        )
        return bool(failed)

    def release(self, queue: str, message_id: int, token: str) -> bool:
        if message := self._message(queue, message_id, token):
            return message.release()
        return bool(self.client.release_many(queue, [message_id], token))

    def bury(self, queue: str, message_id: int, token: str) -> bool:
        if message := self._message(queue, message_id, token):
            return message.bury("hopeless")
        return self.client.bury(queue, message_id, token, error=ValueError("hopeless"))

    def extend(self, queue: str, ids: list[int], token: str, seconds: int) -> dict[int, datetime]:
        by = timedelta(seconds=seconds)
        message = self._message(queue, ids[0], token) if len(ids) == 1 else None
        if message is None:
            return dict(self.client.extend_many(queue, ids, token, by))
        until = message.extend(by)
        return {} if until is None else {message.id: until}

    # Dead letters, housekeeping, and what can be looked at

    def requeue(self, queue: str, ids: list[int] | None) -> int:
        return self.client.requeue(queue, ids)

    def purge_dead(self, queue: str, ids: list[int] | None) -> int:
        return self.client.purge_dead_letters(queue, ids)

    def purge(self, queue: str) -> int:
        return self.client.purge_queue(queue)

    def cleanup(self, queue: str) -> int:
        return self.client.run(calls.cleanup_queue(queue))

    def maintain(self) -> dict[str, int]:
        return {step.step: step.affected for step in self.client.maintain()}

    def browse(self, queue: str) -> list[int]:
        return [each.id for each in self.client.browse(queue)]

    def statistics(self, queue: str) -> tuple[datetime, Counts]:
        found = self.client.queue_statistics(queue)
        return self.clock(), Counts(
            found.pending_count,
            found.processing_count,
            found.completed_count,
            found.total_count,
            found.scheduled_count,
            found.dead_count,
            found.waiting_count,
            found.blocked_count,
            found.delayed_count,
            found.retrying_count,
        )


def as_row(claimed: ClaimedMessage) -> Row:
    return Row(
        claimed.id,
        claimed.payload,
        claimed.key,
        claimed.priority,
        claimed.attempt,
        claimed.claimed_until,
    )
