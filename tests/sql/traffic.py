"""Traffic that goes on on another server: what was published there is delivered exactly once here.

`begin` fills queues of every kind and leaves messages in every place that there is; the database
is then restored, copied, upgraded or promoted; `finish` goes on with the session it is given, and
compares what was delivered in all with what was published.
"""

from __future__ import annotations

import copy
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

from tests.fixtures.clock import advance
from tests.sql.refusals import refused
from tests.sql.test_streams import Stream, offset
from tests.sqs_sql.caller import Sqs, redrive

if TYPE_CHECKING:
    from tests.sql.caller import Caller

QUEUES: dict[str, dict[str, Any]] = {
    "plain": {},
    "lanes": {"ordering": "fifo"},
    "turns": {"ordering": "fair"},
    "some": {"filter": {"headers": {"even": True}}},
    "unread": {},
    "unread lanes": {"ordering": "fifo"},
    "unread some": {"filter": {"headers": {"even": True}}},
}
# Queues without a consumer: all of their messages are in the log, unread.
IDLE = {name for name in QUEUES if name.startswith("unread")}
ORDERS, DEAD_ORDERS = "orders.fifo", "dead.fifo"
HOUR = 3600


@dataclass
class Traffic:
    """What was published, and what came of it."""

    published: dict[int, int] = field(default_factory=dict)
    """Payload to message id."""
    finished: dict[str, list[int]] = field(default_factory=lambda: {name: [] for name in QUEUES})
    held: dict[str, list[Any]] = field(default_factory=dict)
    read: list[int] = field(default_factory=list)
    streamed: list[int] = field(default_factory=list)
    offset: Any = None
    orders: list[str] = field(default_factory=list)
    delivered_orders: list[str] = field(default_factory=list)

    @classmethod
    def begin(cls, mq: Caller) -> Self:
        """Make the queues, and leave messages in every place."""
        traffic = cls()
        for name, settings in QUEUES.items():
            mq("create_queue", name, "t", **settings)
        mq("create_reader", "r", "t")
        sqs = Sqs(mq.db)
        sqs.create(DEAD_ORDERS)
        sqs.create(ORDERS, RedrivePolicy=redrive(DEAD_ORDERS, 1), VisibilityTimeout="60")
        traffic.offset = offset(mq.db, beginning=True)
        traffic.publish(mq, 30)
        traffic.publish(mq, 5, priority=5)
        traffic.publish(mq, 5, deliver_after=mq.at(seconds=HOUR / 2))
        traffic.consume(mq)
        traffic.look(mq)
        traffic.order(sqs, 12)
        for message in sqs.receive(ORDERS, 4)[:2]:
            sqs.delete(message, ORDERS)
            traffic.delivered_orders.append(message["Body"])
        traffic.publish(mq, 10, first_dedupe_key="once")
        return traffic

    def publish(
        self, mq: Caller, count: int, *, first_dedupe_key: str | None = None, **options: Any
    ) -> None:
        dedupe_key = first_dedupe_key
        for _ in range(count):
            number = len(self.published)
            given = {"key": "abcde"[number % 5], "headers": {"even": number % 2 == 0}, **options}
            if dedupe_key is not None:
                given |= {"dedupe_key": dedupe_key, "dedupe_window": "1 day"}
            new = mq.publish("t", number, **given)
            assert new not in self.published.values(), "an id was given twice"
            self.published[number] = new
            dedupe_key = None

    def consume(self, mq: Caller) -> None:
        """Of each queue: one to be tried again later, some acked, one dead, the rest held."""
        for queue in QUEUES.keys() - IDLE:
            rows = mq.consume(queue, 9, vt=HOUR)
            assert mq.nack(queue, rows[0].message_id, delay_seconds=500)
            self._ack(mq, queue, rows[1:3])
            for row in rows[3:4]:
                assert mq("bury_message", queue, row.message_id, "me")
            self.held[queue] = self.held.get(queue, []) + rows[4:]

    def look(self, mq: Caller) -> None:
        """The reader and the stream read a part of what there is."""
        rows = mq.rows("read_window", "r", 20)
        assert mq("commit_window", "r", rows[-1].message_id)
        self.read += [row.payload for row in rows]
        stream = Stream(mq.db, "t", start=self.offset)
        self.streamed += stream.read(max_rows=20)
        self.offset = stream.at

    def order(self, sqs: Sqs, count: int) -> None:
        for _ in range(count):
            number = len(self.orders)
            body = f"{'xyz'[number % 3]}-{number:04}"
            sqs.post(body[0], body, queue=ORDERS)
            self.orders.append(body)

    def saved(self) -> Traffic:
        """How things stand, for a copy that goes on from here."""
        return copy.deepcopy(self)

    def finish(self, mq: Caller, *, rebased: bool) -> None:
        """Go on, deliver everything, and compare."""
        (check,) = [row for row in mq.rows("health") if row.name == "cluster"]
        assert check.ok, check
        first = next(number for number, key in self._dedupe_keys(mq).items() if key == "once")
        assert mq.publish("t", 0, dedupe_key="once") == first
        self.publish(mq, 10)
        for queue, rows in self.held.items():
            self._ack(mq, queue, rows[::2])
        self._finish_stream(mq, rebased=rebased)
        self._finish_reader(mq, rebased=rebased)
        self.publish(mq, 10, priority=3)
        advance(mq.db, seconds=2 * HOUR)
        # New ones of everything: names and ids that were never used.
        mq("create_queue", "late", "new topic")
        mq("create_reader", "late", "t")
        for queue in QUEUES:
            self._drain(mq, queue)
        self._finish_orders(mq)
        mq("configure", "segment_bytes", "1")
        for _ in range(3):
            mq.rows("maintain")
        self.publish(mq, 5)
        for queue in QUEUES:
            mq("requeue_dlq_messages", queue)
            advance(mq.db, seconds=2 * HOUR)
            self._drain(mq, queue)
            self._compare(queue)
            counts = mq.statistics(queue)
            assert (counts.pending_count, counts.processing_count, counts.dead_count) == (0, 0, 0)

    def _ack(self, mq: Caller, queue: str, rows: list[Any]) -> None:
        ids = [row.message_id for row in rows]
        assert sorted(mq.column("ack_messages", queue, ids, "me")) == sorted(ids), queue
        self.finished[queue] += [row.payload for row in rows]

    def _drain(self, mq: Caller, queue: str) -> None:
        while rows := mq.consume(queue, 7):
            self._ack(mq, queue, rows)

    def _compare(self, queue: str) -> None:
        filtered = "filter" in QUEUES[queue]
        expected = {number for number in self.published if not filtered or number % 2 == 0}
        found = Counter(self.finished[queue])
        lost = sorted(expected - found.keys())
        twice = sorted(number for number, count in found.items() if count > 1)
        assert (lost, twice, sorted(found.keys() - expected)) == ([], [], []), queue
        if queue == "unread lanes":
            for key in range(5):
                mine = [number for number in self.finished[queue] if number % 5 == key]
                assert mine == sorted(mine), f"key {key} is out of order"

    def _finish_reader(self, mq: Caller, *, rebased: bool) -> None:
        while rows := mq.rows("read_window", "r", 7):
            self.read += [row.payload for row in rows]
            assert mq("commit_window", "r", rows[-1].message_id)
        assert sorted(self.published) == sorted(set(self.read))
        # After a rebase a reader may read again what lies behind its first unread message.
        assert rebased or len(self.read) == len(set(self.read))

    def _finish_stream(self, mq: Caller, *, rebased: bool) -> None:
        stream = Stream(mq.db, "t", start=self.offset)
        if rebased:
            with refused("PS015"):
                stream.next()
            return
        while found := stream.read(max_rows=20):
            self.streamed += found
        assert sorted(self.streamed) == sorted(self.published)

    def _finish_orders(self, mq: Caller) -> None:
        sqs = Sqs(mq.db)
        self.order(sqs, 6)
        for queue in (ORDERS, DEAD_ORDERS):
            while messages := sqs.receive(queue, 10):
                for message in messages:
                    sqs.delete(message, queue)
                    self.delivered_orders.append(message["Body"])
        assert sorted(self.delivered_orders) == sorted(self.orders)

    def _dedupe_keys(self, mq: Caller) -> dict[int, str]:
        found = mq.query("select message_id, dedupe_key from penstock_data.dedupe_keys")
        return dict(found)
