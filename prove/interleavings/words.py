"""What a session does in one step, and what can be asked when all are through."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import psycopg

    from prove.interleavings.schedule import Session, Step


def statement(text: str, *given: object) -> Step:
    """A step that returns the first column of the statement's rows, or nothing."""

    def step(session: psycopg.Connection[Any]) -> object:
        cursor = session.execute(text.encode(), given)
        return [row[0] for row in cursor] if cursor.description else None

    return step


begin, commit, rollback = statement("begin"), statement("commit"), statement("rollback")


def together(*steps: Step) -> Step:
    """Several statements as one step; it returns what the last one returns."""

    def step(session: psycopg.Connection[Any]) -> object:
        return [each(session) for each in steps][-1]

    return step


@dataclass(frozen=True)
class World:
    """A topic and its queues, for one order of the steps."""

    db: Session
    topic: str

    def queue(self, number: int = 0) -> str:
        return f"{self.topic} {number}"

    def create(self, queues: int = 1, **options: object) -> None:
        words = "".join(f", {name} => %s" for name in options)
        for number in range(queues):
            call = f"select penstock.create_queue(%s, %s{words})"
            self.ask(call, self.queue(number), self.topic, *options.values())

    def ask(self, text: str, *given: object) -> list[Any]:
        found: Any = statement(text, *given)(self.db)
        return found or []

    def publish(self, **options: object) -> Step:
        words = "".join(f", {name} => %s" for name in options)
        call = f"select penstock.publish_message(%s, %s{words})"
        return statement(call, self.topic, "{}", *options.values())

    def publish_many(self, count: int) -> Step:
        call = "select penstock.publish_messages(%s, %s::jsonb[])"
        return statement(call, self.topic, ["{}"] * count)

    def claim(self, token: str, size: int = 10, seconds: int = 30, queue: int = 0) -> Step:
        call = "select message_id from penstock.consume_messages_batch(%s, %s, %s, %s)"
        return statement(call, self.queue(queue), token, seconds, size)

    def claim_one(self, token: str) -> Step:
        call = "select message_id from penstock.consume_message(%s, %s)"
        return statement(call, self.queue(), token)

    def cut(self, token: str, size: int = 1) -> Step:
        """Claim as one does who had to wait for the claim lock, so that a slice is left."""
        lock = statement("select penstock_data.lock_queue(%s)", self.queue())
        call = "select message_id from penstock_data.claim_and_share(%s, %s, 30, %s, null, true)"
        share = statement(call, self.queue(), token, size)

        def step(session: psycopg.Connection[Any]) -> object:
            with session.transaction():
                lock(session)
                return share(session)

        return step

    def come_beside(self, nth: int = 1) -> Step:
        """From now on the session claims as one that used a slice last: the first, the second."""
        return statement(
            "select set_config('penstock.beside', q.name, false), set_config('penstock.slice', "
            "(select c.first_id::text from penstock_data.claims c where c.queue_id = q.id "
            "and c.token = '' order by c.first_id offset %s limit 1), false) "
            "from penstock_data.queues q where q.name = %s",
            nth - 1,
            self.queue(),
        )

    def come_alone(self) -> Step:
        return statement(
            "select set_config('penstock.beside', '', false), "
            "set_config('penstock.slice', '', false)"
        )

    def end_slices(self) -> Step:
        """What housekeeping does with slices that were long unused."""
        return statement(
            "select penstock_data.end_slices(q.id, penstock_data.clock()) "
            "from penstock_data.queues q where q.name = %s",
            self.queue(),
        )

    def pause(self) -> Step:
        return statement("select penstock.pause_queue(%s)", self.queue())

    def drain(self, token: str) -> list[Any]:
        """All that is left, claimed by no session of the order."""
        found: list[Any] = []
        while more := self.do(self.claim(token)):
            found += more
        return found

    def ack(self, message_id: int, token: str) -> Step:
        return statement("select penstock.ack_message(%s, %s, %s)", self.queue(), message_id, token)

    def extend(self, message_id: int, token: str, seconds: int) -> Step:
        call = "select message_id from penstock.batch_extend_message_vt(%s, %s, %s, %s)"
        return statement(call, self.queue(), [message_id], token, seconds)

    def do(self, step: Step) -> list[Any]:
        """A step of no session of the order, before or after."""
        found: Any = step(self.db)
        return found or []

    def state(self, message_id: int, queue: int = 0) -> str | None:
        call = "select penstock.message_state(%s, %s)"
        found: list[Any] = self.ask(call, self.queue(queue), message_id)
        return found[0]
