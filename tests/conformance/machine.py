"""The steps that hypothesis strings together, and what must hold after each of them.

The main session commits every step.  The writer is a second session whose transaction stays open
over many steps: it publishes, claims, and finishes messages, and commits or rolls back in the end.
"""

from __future__ import annotations

import itertools
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from hypothesis import reject
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.conformance.engine import Draft, seconds
from tests.conformance.model import FOREVER, LATE, Message, Place, Queue, Settings, Span, committed
from tests.fixtures.clock import advance

if TYPE_CHECKING:
    from tests.conformance.engine import Counts, Engine, Seen

_HISTORY = 20  # attempts that a dead letter remembers
_DEDUPE_WINDOW = timedelta(minutes=5)
_numbers = itertools.count(1)

which = st.integers(0, 40)
batches = st.integers(1, 5) | st.just(20)
delays = st.sampled_from([None, 0, 30, 60])
keys = st.sampled_from([None, "a", "b", "c"])
drafts = st.builds(
    Draft,
    colour=st.sampled_from(["red", "red", "blue"]),
    key=keys,
    priority=st.sampled_from([0, 0, 0, 0, 5, 1, -3]),
    delay=st.sampled_from([None, None, None, 30]),
    expiry=st.sampled_from([None, None, None, 60]),
)
# Mostly busy keys without care of their own, or turns and lanes are hardly seen.
plain_drafts = st.builds(Draft, key=st.sampled_from(["a", "a", "a", "b", "c", None]))
any_drafts = plain_drafts | drafts


def queue_settings(ordering: str) -> st.SearchStrategy[Settings]:
    """How a queue may be created; `filtered` is a standard queue that wants red messages."""
    return st.builds(
        Settings,
        ordering=st.just("standard" if ordering == "filtered" else ordering),
        max_attempts=st.sampled_from([3, 2, 1, 0]),
        retention=st.sampled_from([None, None, None, timedelta(seconds=300)]),
        colour=st.just("red" if ordering == "filtered" else None),
    )


orderings = st.sampled_from(["standard", "filtered", "fifo", "fair"])


@dataclass(slots=True)
class Writer:
    """What the open transaction of the second session has done so far."""

    began: int | None = None
    messages: list[Message] = field(default_factory=list)
    claimed: tuple[Queue, Queue] | None = None  # a queue, and what it will be after the commit
    acked: list[tuple[Queue, int]] = field(default_factory=list)
    failed: list[tuple[Queue, int, Span]] = field(default_factory=list)


class QueueMachine(RuleBasedStateMachine):
    """A topic with one queue or two, driven step by step."""

    def __init__(self, ordering: str, main: Engine, second: Engine) -> None:
        super().__init__()
        self.ordering = ordering
        self.engine, self.other = main, second
        self.topic = f"topic {next(_numbers)}"
        self.queues: list[Queue] = []
        self.log: dict[int, Message] = {}
        self.deduped: dict[str, tuple[int, Any]] = {}
        self.claims: list[
            tuple[str, int, str]
        ] = []  # every (queue, message, token) ever handed out
        self.writer = Writer()
        self.step = 0
        self.rotated = False
        self.now = self.engine.clock()

    # Helpers

    def _begin(self) -> int:
        self.step += 1
        for queue in self.queues:
            queue.writer_is_open = self.writer.began is not None
        return self.step

    def _span(self) -> Span:
        """The time of this step.  When a moment that matters fell into it, the outcome is open."""
        span = Span(self.now, self.engine.clock())
        for item in [item for queue in self.queues for item in queue.items.values()]:
            if any(map(span.open, (item.deadline, item.due_at, item.lapses_at))):
                reject()
        return span

    def _free(self) -> list[Queue]:
        """Queues that the writer has no claim of its own on."""
        locked = self.writer.claimed[0] if self.writer.claimed else None
        return [queue for queue in self.queues if queue is not locked]

    def _untouched(self) -> list[Queue]:
        """Queues that the writer has nothing at all to do with."""
        return [
            q for q in self._free() if all(item.sure_at != FOREVER for item in q.items.values())
        ]

    def _publish(self, messages: list[Message]) -> None:
        for message in messages:
            self.log[message.id] = message
            for queue in self.queues:
                queue.publish(message)

    # Queues

    @initialize(data=st.data())
    def begin(self, data: st.DataObject) -> None:
        self.engine.create_topic(self.topic)
        self._create(data.draw(queue_settings(self.ordering)), "end")

    def _create(self, settings: Settings, start_at: str) -> Queue:
        queue = Queue(f"queue {next(_numbers)}", settings)
        self.engine.create_queue(queue.name, self.topic, settings, start_at)
        self.queues.append(queue)
        return queue

    @precondition(lambda self: len(self.queues) < 2)
    @rule(
        settings=orderings.flatmap(queue_settings), start_at=st.sampled_from(["end", "beginning"])
    )
    def create_queue(self, settings: Settings, start_at: str) -> None:
        self._begin()
        unread = [
            item.message
            for other in self.queues
            for item in other.items.values()
            if item.place is Place.WAITING
            and not item.placed
            and settings.colour in (None, item.message.colour)
        ]
        queue = self._create(settings, start_at)
        if start_at == "beginning":
            held = self.engine.browse(queue.name)
            assert {message.id for message in unread} <= set(held), "the log lost unread messages"
            assert set(held) <= set(self.log), "the log has what nobody published"
            for each in held:
                queue.publish(self.log[each])
            assert set(held) == set(queue.items), "the queue has what it does not want"

    @precondition(lambda self: self._untouched() and len(self.queues) > 1)
    @rule(which=which)
    def delete_queue(self, which: int) -> None:
        self._begin()
        queue = self._untouched()[which % len(self._untouched())]
        self.engine.delete_queue(queue.name)
        self.queues.remove(queue)

    @precondition(lambda self: self._untouched())
    @rule(which=which)
    def purge(self, which: int) -> None:
        self._begin()
        queue = self._untouched()[which % len(self._untouched())]
        left = [*queue.place(Place.WAITING), *queue.place(Place.CLAIMED)]
        assert self.engine.purge(queue.name) == len(left)
        queue.forget([item.message.id for item in left])

    # Publishing

    @rule(draft=any_drafts)
    def publish(self, draft: Draft) -> None:
        step = self._begin()
        self._publish(self.engine.stored([self.engine.publish(self.topic, draft)], step, step))

    @rule(drafts=st.lists(any_drafts, min_size=1, max_size=8))
    def publish_many(self, drafts: list[Draft]) -> None:
        step = self._begin()
        ids = self.engine.publish_many(self.topic, drafts)
        assert ids == sorted(ids)
        assert len(ids) == len(drafts)
        messages = self.engine.stored(ids, step, step)
        for draft, message in zip(drafts, messages, strict=True):
            assert (draft.key, draft.priority) == (message.key, message.priority)
        self._publish(messages)

    @rule(draft=drafts, key=st.sampled_from(["x", "y"]))
    def publish_once(self, draft: Draft, key: str) -> None:
        step = self._begin()
        first, until = self.deduped.get(key, (None, self.now))
        found = self.engine.publish(self.topic, draft, dedupe_key=key)
        span = self._span()
        if span.open(until):
            reject()
        if until > span.end:
            assert found == first, "published twice within the window"
            return
        assert found != first, "the window of the dedupe key is over"
        [message] = self.engine.stored([found], step, step)
        self.deduped[key] = (found, message.published_at + _DEDUPE_WINDOW)
        self._publish([message])

    # Claiming

    # Not beside a claim that is open: such claims go ahead of it, in another order than the model's
    # (tests/concurrency/test_ahead.py).
    @precondition(lambda self: self._free())
    @rule(
        which=which,
        batch=batches,
        token=st.sampled_from(["ann", "bob"]),
        lease=st.sampled_from([30, 30, 90, 0]),
    )
    def claim(self, which: int, batch: int, token: str, lease: int) -> None:
        self._begin()
        free = self._free()
        queue = free[which % len(free)]
        rows = self.engine.claim(queue.name, token, lease, batch)
        queue.claim(rows, token, batch, timedelta(seconds=lease), self._span())
        self.claims += [(queue.name, row.id, token) for row in rows]

    @precondition(lambda self: self._free())
    @rule(
        which=which,
        before=st.lists(any_drafts, max_size=2),
        batch=batches,
        after=st.lists(any_drafts, max_size=2),
        kept=st.booleans(),
    )
    def claim_between_publishing(
        self, which: int, before: list[Draft], batch: int, after: list[Draft], kept: bool
    ) -> None:
        """In one transaction; what it publishes itself is not for its own claim."""
        step = self._begin()
        queue = self._free()[which % len(self._free())]
        with self.engine.transaction(kept=kept) as inside:
            ids = [inside.publish(self.topic, draft) for draft in before]
            rows = inside.claim(queue.name, "own", 30, batch)
            ids += [inside.publish(self.topic, draft) for draft in after]
            messages = inside.stored(ids, step, step)
        expected = deepcopy(queue)
        expected.claim(rows, "own", batch, timedelta(seconds=30), self._span())
        if kept:
            queue.items = expected.items
            self.claims += [(queue.name, row.id, "own") for row in rows]
            self._publish(messages)

    # Finishing

    def _pick(self, which: int, *, right: bool) -> tuple[Queue, int, str] | None:
        """A claim of the past, newest first; with another token it is nobody's."""
        if not self.claims:
            return None
        name, message_id, token = self.claims[-1 - which % len(self.claims)]
        queue = next((queue for queue in self._free() if queue.name == name), None)
        item = queue.items.get(message_id) if queue else None
        if queue is None or (item and item.sure_at == FOREVER):
            return None
        return queue, message_id, token if right else "nobody"

    @precondition(lambda self: self.claims)
    @rule(which=which, right=st.sampled_from([True, True, True, False]))
    def ack(self, which: int, right: bool) -> None:
        self._begin()
        if picked := self._pick(which, right=right):
            queue, message_id, token = picked
            acked = self.engine.ack(queue.name, message_id, token)
            assert acked == queue.holds(message_id, token, self._span())
            if acked:
                queue.ack(message_id)

    @precondition(lambda self: self.claims)
    @rule(picks=st.lists(which, min_size=2, max_size=6), right=st.booleans())
    def ack_many(self, picks: list[int], right: bool) -> None:
        self._begin()
        picked = [found for each in picks if (found := self._pick(each, right=right))]
        if picked:
            queue, _, token = picked[0]
            ids = [message_id for found, message_id, _ in picked if found is queue]
            acked = self.engine.ack_many(queue.name, ids, token)
            span = self._span()
            assert sorted(acked) == sorted({i for i in ids if queue.holds(i, token, span)})
            for each in acked:
                queue.ack(each)

    @precondition(lambda self: self.claims)
    @rule(which=which, delay=delays, right=st.sampled_from([True, True, True, False]))
    def nack(self, which: int, delay: int | None, right: bool) -> None:
        self._begin()
        if picked := self._pick(which, right=right):
            queue, message_id, token = picked
            failed = self.engine.nack(queue.name, message_id, token, delay)
            span = self._span()
            assert failed == queue.holds(message_id, token, span)
            if failed:
                queue.fail(message_id, span, seconds(delay))

    @precondition(lambda self: self.claims)
    @rule(which=which, right=st.sampled_from([True, True, True, False]))
    def release(self, which: int, right: bool) -> None:
        self._begin()
        if picked := self._pick(which, right=right):
            queue, message_id, token = picked
            released = self.engine.release(queue.name, message_id, token)
            span = self._span()
            assert released == queue.holds(message_id, token, span)
            if released:
                queue.release(message_id, span)

    @precondition(lambda self: self.claims)
    @rule(which=which, right=st.sampled_from([True, True, True, False]))
    def bury(self, which: int, right: bool) -> None:
        self._begin()
        if picked := self._pick(which, right=right):
            queue, message_id, token = picked
            buried = self.engine.bury(queue.name, message_id, token)
            assert buried == queue.holds(message_id, token, self._span())
            if buried:
                queue.bury(message_id)

    @precondition(lambda self: self.claims)
    @rule(picks=st.lists(which, min_size=1, max_size=3), right=st.sampled_from([True, True, False]))
    def extend(self, picks: list[int], right: bool) -> None:
        self._begin()
        picked = [found for each in picks if (found := self._pick(each, right=right))]
        if picked:
            queue, _, token = picked[0]
            ids = [message_id for found, message_id, _ in picked if found is queue]
            extended = self.engine.extend(queue.name, ids, token, 60)
            span = self._span()
            held = {each for each in ids if queue.holds(each, token, span)}
            assert extended == {i: queue.extend(i, timedelta(seconds=60)) for i in held}

    # Dead letters and history

    def _some(self, place: Place, which: int, many: int) -> tuple[Queue, list[int]] | None:
        found = [(q, ids) for q in self._free() if (ids := [i.message.id for i in q.place(place)])]
        if not found:
            return None
        queue, ids = found[which % len(found)]
        return queue, ids[:many]

    @precondition(lambda self: self._some(Place.DEAD, 0, 1))
    @rule(which=which, many=st.integers(1, 3), everything=st.booleans())
    def requeue(self, which: int, many: int, everything: bool) -> None:
        self._begin()
        if found := self._some(Place.DEAD, which, 1000 if everything else many):
            queue, ids = found
            assert self.engine.requeue(queue.name, None if everything else ids) == len(ids)
            queue.requeue(ids, self._span())

    @precondition(lambda self: self._some(Place.DEAD, 0, 1))
    @rule(which=which, many=st.integers(1, 2), everything=st.booleans())
    def purge_dead(self, which: int, many: int, everything: bool) -> None:
        self._begin()
        if found := self._some(Place.DEAD, which, 1000 if everything else many):
            queue, ids = found
            assert self.engine.purge_dead(queue.name, None if everything else ids) == len(ids)
            queue.forget(ids)

    @precondition(lambda self: self._some(Place.DONE, 0, 1))
    @rule(which=which)
    def delete_completed(self, which: int) -> None:
        self._begin()
        if found := self._some(Place.DONE, which, 1000):
            queue, ids = found
            chosen = ids[which % len(ids)]
            assert self.engine.delete_completed(queue.name, chosen) == 1
            queue.forget([chosen])

    @precondition(lambda self: self._some(Place.DONE, 0, 1))
    @rule(which=which)
    def cleanup(self, which: int) -> None:
        self._begin()
        if found := self._some(Place.DONE, which, 1000):
            queue, ids = found
            count = self.engine.cleanup(queue.name)
            left = {seen.id for seen in self.engine.look(queue.name, ids) if seen.rows} & set(ids)
            gone = [each for each in ids if each not in left]
            assert count == len(gone)
            # A fifo queue keeps what it has still to learn from.
            assert not left or queue.settings.ordering == "fifo"
            queue.forget(gone)

    # Time and housekeeping

    @rule(by=st.sampled_from([1, 10, 30, 60, 310]))
    def time_passes(self, by: int) -> None:
        self._begin()
        advance(self.engine.conn, by)

    @precondition(lambda self: not self.writer.claimed)
    @rule(rotate=st.booleans())
    def maintain(self, rotate: bool) -> None:
        self._begin()
        if rotate:
            self.rotated = True
            self.engine.configure("segment_bytes", "1")
        self.engine.maintain()
        if rotate:
            self.engine.configure("segment_bytes", "268435456")
        span = self._span()
        for queue in self.queues:
            for item in queue.place(Place.CLAIMED):
                if item.sure_at != FOREVER:
                    item.sure_at = None  # it looks below every floor
            queue.take_back(span)

    # The writer: a second session with an open transaction

    @rule(drafts=st.lists(any_drafts, min_size=1, max_size=3))
    def writer_publishes(self, drafts: list[Draft]) -> None:
        step = self._begin()
        self.writer.began = self.writer.began or step
        ids = [self.other.publish(self.topic, draft) for draft in drafts]
        self.writer.messages += self.other.stored(ids, self.writer.began, step)

    @precondition(lambda self: self._untouched() and not self.writer.claimed)
    @rule(which=which, batch=batches)
    def writer_claims(self, which: int, batch: int) -> None:
        step = self._begin()
        self.writer.began = self.writer.began or step
        queue = self._untouched()[which % len(self._untouched())]
        rows = self.other.claim(queue.name, "writer", 30, batch)
        later = deepcopy(queue)
        later.claim(rows, "writer", batch, timedelta(seconds=30), self._span())
        self.writer.claimed = (queue, later)

    @precondition(lambda self: self._free())
    @rule(which=which, batch=batches, many=st.integers(1, 3), well=st.booleans())
    def writer_finishes(self, which: int, batch: int, many: int, well: bool) -> None:
        """As a transactional consumer does: a claim of its own, then work and ack in one."""
        step = self._begin()
        queue = self._free()[which % len(self._free())]
        token = f"transactional {step}"
        rows = self.engine.claim(queue.name, token, 30, batch)
        span = self._span()
        queue.claim(rows, token, batch, timedelta(seconds=30), span)
        for row in rows[:many]:
            self.writer.began = self.writer.began or step
            if well:
                assert self.other.ack(queue.name, row.id, token)
                self.writer.acked.append((queue, row.id))
            else:
                assert self.other.nack(queue.name, row.id, token, 30)
                self.writer.failed.append((queue, row.id, self._span()))
        for row in rows:
            # The engine may keep a batch as one claim or several, and passes over what is locked.
            queue.items[row.id].held = row in rows[:many]
            queue.items[row.id].sure_at = FOREVER

    @precondition(lambda self: self.writer.began)
    @rule(kept=st.sampled_from([True, True, False]))
    def writer_ends(self, kept: bool) -> None:
        step = self._begin()
        (self.other.conn.commit if kept else self.other.conn.rollback)()
        writer, self.writer = self.writer, Writer()
        now = self._span().end
        for item in [item for queue in self.queues for item in queue.items.values()]:
            if item.sure_at == FOREVER:
                # Its deadline may lie below the floor by now.
                item.held = False
                item.sure_at = now + LATE if item.deadline and item.deadline <= now else None
        if kept:
            self._keep(writer, step)

    def _keep(self, writer: Writer, step: int) -> None:
        if writer.claimed:
            queue, later = writer.claimed
            queue.items |= later.items
            self.claims += [
                (queue.name, item.message.id, "writer")
                for item in queue.place(Place.CLAIMED)
                if item.token == "writer"
            ]
        for queue, message_id in writer.acked:
            queue.ack(message_id)
        for queue, message_id, span in writer.failed:
            queue.fail(message_id, span, timedelta(seconds=30))
        self._publish([committed(message, step) for message in writer.messages])

    # What holds after every step

    @invariant()
    def every_message_is_in_one_place(self) -> None:
        for queue in self.queues:
            before = self.engine.clock()
            seen = {each.id: each for each in self.engine.look(queue.name, list(queue.items))}
            assert set(seen) == set(queue.items), "the queue has what it must not have"
            self.now, counts = self.engine.statistics(queue.name)
            for message_id, item in queue.items.items():
                self._compare(queue, message_id, seen[message_id])
                item.placed = seen[message_id].placed
            # All are compared by now, so every item is known to be where it is.
            for message_id in queue.items:
                self._compare_state(queue, seen[message_id], Span(before, self.now))
            self._account(queue, counts, list(seen.values()), Span(before, self.now))
        self.now = self.engine.clock()

    def _compare(self, queue: Queue, message_id: int, seen: Seen) -> None:
        item = queue.items[message_id]
        queue.learn(item, seen.status, Span(self.now, self.now))
        assert seen.rows == 1, f"{item} is in {seen.rows} places"
        match item.place:
            case Place.WAITING:
                expected = ("pending", None, item.attempts)
                placed = {True} if not item.fresh else {True, False}
                if item.fresh and item.message.plain and queue.direct:
                    placed = {False}
                assert seen.placed in placed, f"{item} has a place: {seen.placed}"
                queue.learn_due_time(item, seen.visible_at)
            case Place.CLAIMED:
                expected = ("processing", item.token, item.attempts)
                found = (seen.state, seen.visible_at)
                assert found == ("claimed", item.deadline), f"{seen} is not {item}"
            case Place.DONE:
                expected = ("completed", item.token, item.attempts)
                assert seen.state == "done", f"{seen} is not {item}"
            case Place.DEAD:
                expected = ("dead", None, item.attempts)
                assert (seen.state, seen.failures) == ("dead", min(item.failures, _HISTORY))
        assert (seen.status, seen.token, seen.attempts) == expected, f"{seen} is not {item}"

    def _compare_state(self, queue: Queue, seen: Seen, span: Span) -> None:
        """The vocabulary says what the model says."""
        item = queue.items[seen.id]
        if item.place is Place.WAITING:
            states = queue.states(item, span)
            assert seen.state in states, f"{item} is {seen.state}, not {states}"

    def _account(self, queue: Queue, counts: Counts, seen: list[Seen], span: Span) -> None:
        places = {place: len(queue.place(place)) for place in Place}
        assert counts.pending == places[Place.WAITING]
        moments = [
            moment for item in queue.items.values() for moment in (item.due_at, item.deadline)
        ]
        if not any(map(span.open, moments)):
            for state in ("waiting", "blocked", "delayed", "retrying"):
                told = sum(each.state == state for each in seen)
                assert getattr(counts, state) == told, f"{state}: {counts}, but {told} are"
        assert counts.scheduled == counts.delayed + counts.retrying
        assert counts.pending == counts.waiting + counts.blocked + counts.scheduled
        assert counts.processing == places[Place.CLAIMED]
        assert counts.completed == places[Place.DONE]
        assert counts.dead == places[Place.DEAD]
        assert counts.total == counts.pending + counts.processing + counts.completed
        now = counts.pending + counts.processing + counts.completed + counts.dead
        assert now + queue.gone == queue.published, "messages were lost or doubled"

    def teardown(self) -> None:
        self.other.conn.rollback()
        self.engine.delete_topic(self.topic)
        if self.rotated:  # let the receipts go, or their segments pile up
            advance(self.engine.conn, 90_000)
            self.engine.maintain()
