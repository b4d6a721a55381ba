"""What a queue is, in plain Python: where each of its messages may be, and what a claim may return.

The model knows the contract and nothing of the engine.  Where the contract leaves room (jitter, the
order of transactions that overlap, which key goes first), it states the room: `possible` is what a
claim may return, `sure` what it must not overlook.  Moments come in pairs, the engine's clock
before and after a step; a moment between the two would leave the outcome open, see `Span.open`.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import NamedTuple

RETRY_BASE = timedelta(seconds=20)
RETRY_CAP = timedelta(seconds=50)
JITTER = 0.2  # a retry comes up to a fifth sooner
# A claim that was locked at its end may be overlooked until somebody looks below the floor again.
LATE = timedelta(seconds=60)
LEAST_RENEWAL = timedelta(minutes=1)  # what a requeued message has at least
FOREVER = datetime.max.replace(tzinfo=UTC)  # as long as a transaction is open that works on it
# While a key waits for its turn, any other key gets two turns at most.  The waiting head has rank
# max(turn, last rank + 1) <= turn + 1, no waiting message has a rank below turn, and ranks of one
# key differ: so at most the ranks turn and turn + 1 of another key go ahead of it.
TURNS_WHILE_WAITING = 2


class Span(NamedTuple):
    """The engine's clock before and after a step."""

    start: datetime
    end: datetime

    def open(self, moment: datetime | None) -> bool:
        """Whether the moment fell into the step, so that nobody can tell what came first."""
        return moment is not None and self.start < moment <= self.end

    def after(self, shortest: timedelta, longest: timedelta | None = None) -> Span:
        return Span(self.start + shortest, self.end + (shortest if longest is None else longest))


class Place(Enum):
    """Where a message is in a queue; unread and scheduled are both waiting."""

    WAITING = "waiting"
    CLAIMED = "claimed"
    DONE = "done"
    DEAD = "dead"


@dataclass(frozen=True, slots=True)
class Message:
    """A published message.  `began`, `inserted` and `committed` count the steps of the test."""

    id: int
    priority: int
    key: str | None
    colour: str
    published_at: datetime
    deliver_after: datetime | None
    expires_at: datetime | None
    began: int
    inserted: int
    committed: int = 0

    @property
    def plain(self) -> bool:
        return self.priority == 0 and self.deliver_after is None

    def before(self, other: Message, *, by_insert: bool) -> bool:
        """Whether the log must hold it ahead of the other one."""
        if self.began == other.began:
            return self.id < other.id
        return self.committed < (other.inserted if by_insert else other.began)


@dataclass(slots=True)
class Item:
    """A message's life in one queue."""

    message: Message
    lapses_at: datetime | None
    due_at: datetime | None
    place: Place = Place.WAITING
    attempts: int = 0
    failures: int = 0
    token: str | None = None
    deadline: datetime | None = None
    fresh: bool = True  # neither claimed nor requeued so far: the order of the log holds for it
    requeued: bool = False
    due_within: Span | None = None  # when it was put back, and not yet compared with the engine
    sure_at: datetime | None = None  # it changed in a transaction that stayed open for a while
    held: bool = False  # a transaction that is still open finishes it
    placed: bool = False  # the engine has given it a place beside the log
    passed: Counter[str] = field(default_factory=Counter)  # fair: turns of others while it waited

    def is_due(self, now: datetime) -> bool:
        return self.due_at is None or self.due_at <= now

    def has_lapsed(self, now: datetime) -> bool:
        return self.lapses_at is not None and self.lapses_at <= now

    def is_sure(self, now: datetime) -> bool:
        return self.sure_at is None or self.sure_at <= now

    def put_back(self, due: Span, *, counted: bool = True) -> None:
        self.place, self.token, self.deadline = Place.WAITING, None, None
        self.due_within, self.due_at, self.placed = due, due.start, True
        self.sure_at = None
        if not counted:
            self.attempts -= 1

    def bury(self) -> None:
        self.place, self.token, self.deadline = Place.DEAD, None, None

    def finish(self) -> None:
        self.place, self.deadline = Place.DONE, None


@dataclass(frozen=True, slots=True)
class Settings:
    """How a queue was created."""

    ordering: str
    max_attempts: int
    retention: timedelta | None = None
    colour: str | None = None  # it wants messages of this colour only


class Row(NamedTuple):
    """A message as a claim returns it."""

    id: int
    payload: dict[str, str]
    key: str | None
    priority: int
    attempts: int
    deadline: datetime


class Queue:
    """One queue: its messages by id, and the steps that move them."""

    def __init__(self, name: str, settings: Settings) -> None:
        self.name = name
        self.settings = settings
        self.items: dict[int, Item] = {}
        self.published = 0  # since the queue began
        self.gone = 0  # purged or forgotten
        self.writer_is_open = False

    def place(self, place: Place) -> list[Item]:
        return [item for item in self.items.values() if item.place is place]

    # What comes in and goes out

    def publish(self, message: Message) -> None:
        if self.settings.colour not in (None, message.colour):
            return
        ends = [message.expires_at]
        if self.settings.retention is not None:
            ends.append(message.published_at + self.settings.retention)
        lapses_at = min((end for end in ends if end is not None), default=None)
        self.items[message.id] = Item(message, lapses_at, message.deliver_after)
        self.published += 1

    def forget(self, ids: list[int]) -> None:
        for each in ids:
            del self.items[each]
        self.gone += len(ids)

    def requeue(self, ids: list[int], span: Span) -> None:
        for item in map(self.items.__getitem__, ids):
            item.put_back(span)
            item.attempts, item.fresh, item.requeued = 0, False, True
            item.lapses_at = self._renewed(item.message, span)

    def _renewed(self, message: Message, span: Span) -> datetime | None:
        """When a requeued message lapses: its expiry and the retention count from now."""
        spans = [self.settings.retention]
        if message.expires_at is not None:
            spans.append(max(message.expires_at - message.published_at, LEAST_RENEWAL))
        return min((span.start + each for each in spans if each is not None), default=None)

    # What becomes of a claim

    def holds(self, message_id: int, token: str, span: Span) -> bool:
        """Whether the token still holds the message."""
        item = self.items.get(message_id)
        return (
            item is not None
            and item.place is Place.CLAIMED
            and item.token == token
            and item.deadline is not None
            and item.deadline > span.end
        )

    def ack(self, message_id: int) -> None:
        self.items[message_id].finish()

    def fail(self, message_id: int, span: Span, delay: timedelta | None) -> None:
        item = self.items[message_id]
        longest = min(RETRY_CAP, RETRY_BASE * 2 ** (item.attempts - 1))
        due = span.after(longest * (1 - JITTER), longest) if delay is None else span.after(delay)
        self._give_up(item, due)

    def bury(self, message_id: int) -> None:
        self.items[message_id].failures += 1
        self.items[message_id].bury()

    def release(self, message_id: int, span: Span) -> None:
        self.items[message_id].put_back(span, counted=False)

    def extend(self, message_id: int, extension: timedelta) -> datetime:
        item = self.items[message_id]
        assert item.deadline is not None
        item.deadline += extension
        return item.deadline

    def take_back(self, span: Span) -> None:
        """End the claims whose deadline passed, except those that may be overlooked for now."""
        for item in self.place(Place.CLAIMED):
            if self._expired(item, span.start) and not item.held and item.is_sure(span.start):
                self._give_up(item, span)

    def _expired(self, item: Item, now: datetime) -> bool:
        return item.deadline is not None and item.deadline <= now

    def _give_up(self, item: Item, due: Span) -> None:
        item.failures += 1
        if 0 < self.settings.max_attempts <= item.attempts:
            item.bury()
        else:
            item.put_back(due)

    # What the contract leaves open, and the engine's views tell

    @property
    def direct(self) -> bool:
        """Whether plain messages stay in the log until they are claimed."""
        return self.settings.ordering == "standard" and self.settings.colour is None

    def learn(self, item: Item, status: str | None, span: Span) -> None:
        """A lapsed message leaves when somebody meets it, an overlooked claim when it is found."""
        overlooked = item.place is Place.CLAIMED and not item.held and item.sure_at is not None
        if overlooked and self._expired(item, span.start) and status != "processing":
            self._give_up(item, span)
            item.due_within = None
        if item.place is Place.WAITING and item.has_lapsed(span.end) and status == "completed":
            item.finish()
            item.attempts = 0

    def learn_due_time(self, item: Item, due_at: datetime | None) -> None:
        """When a message that was put back comes again, within what its delay and jitter allow."""
        if item.due_within is not None:
            first, last = item.due_within
            assert due_at is not None, f"{item} was put back, and is not scheduled"
            assert first <= due_at <= last, f"due at {due_at}, not within {first} and {last}"
            item.due_at, item.due_within = due_at, None

    # The words for a pending message

    def states(self, item: Item, span: Span) -> set[str]:
        """What a message that is not claimed may be said to be."""
        found = set()
        for now in span:
            if not item.is_due(now):
                found.add("retrying" if item.attempts else "delayed")
            else:
                found |= self._due_states(item, now)
        return found

    def _due_states(self, item: Item, now: datetime) -> set[str]:
        """Blocked behind what is claimed or not due, if that is ahead of it in its lane."""
        lane = self._lane(item.message.key) if self.settings.ordering == "fifo" else []
        holding = [other for other in lane if other is not item and self._holds(other, now)]
        if not holding:
            return {"waiting"}
        if any(other.place is Place.CLAIMED or self._was_head(other) for other in holding):
            return {"blocked"}
        if any(self._is_ahead(other, item) for other in holding):
            return {"blocked"}
        behind = all(self._is_ahead(item, other) for other in holding)
        return {"waiting"} if behind or self._was_head(item) else {"blocked", "waiting"}

    def _holds(self, item: Item, now: datetime) -> bool:
        if item.place is Place.CLAIMED:
            return not self._expired(item, now)
        return not item.is_due(now)

    def _was_head(self, item: Item) -> bool:
        """It came back from a claim, so it is the head of its lane."""
        return not item.fresh and not item.requeued

    def _is_ahead(self, one: Item, two: Item) -> bool:
        return one.fresh and two.fresh and one.message.before(two.message, by_insert=True)

    # What a claim may return

    def claim(self, rows: list[Row], token: str, batch: int, lease: timedelta, span: Span) -> None:
        """Compare what a claim returned with what it may return, and move the messages."""
        self.take_back(span)
        for item in self.place(Place.CLAIMED):  # overlooked until now, and now found
            if self._expired(item, span.start) and self._was_found(item, rows):
                assert not item.held, f"{item} is being finished"
                self._give_up(item, span)
        assert len(rows) <= batch, f"asked for {batch}, got {len(rows)}"
        ids = [row.id for row in rows]
        assert len(set(ids)) == len(ids), f"the same message twice: {ids}"
        possible = self._possible(span)
        for row in rows:
            assert row.id in possible, f"{row} must not be claimed: {self.items.get(row.id)}"
            self._check_row(row, possible[row.id], lease, span)
        self._check_complete(ids, batch, span)
        self._check_order(ids, span)
        if self.settings.ordering == "fair":
            self._check_turns(ids, span)
        for row in rows:
            item = possible[row.id]
            item.place, item.token, item.deadline = Place.CLAIMED, token, row.deadline
            item.attempts, item.fresh, item.sure_at = row.attempts, False, None
            item.due_within = None

    def _was_found(self, item: Item, rows: list[Row]) -> bool:
        """Whether a claim took it back: it is there again, or dead, and the next of its key is."""
        dead = 0 < self.settings.max_attempts <= item.attempts
        return any(
            row.id == item.message.id
            or (self.settings.ordering == "fifo" and dead and row.key == item.message.key)
            for row in rows
        )

    def _check_row(self, row: Row, item: Item, lease: timedelta, span: Span) -> None:
        message, most = item.message, self.settings.max_attempts
        assert row.payload == {"colour": message.colour}
        assert (row.key, row.priority) == (message.key, message.priority)
        assert row.attempts == item.attempts + 1, f"{row} is attempt {item.attempts + 1}"
        assert most == 0 or row.attempts <= most, f"{row} has had its {most} attempts"
        assert span.start + lease <= row.deadline <= span.end + lease

    def _possible(self, span: Span) -> dict[int, Item]:
        waiting = [i for i in self.place(Place.WAITING) if i.is_due(span.end)]
        if self.settings.ordering == "fifo":
            waiting = [item for item in waiting if item in self._heads(item.message.key, span)]
        return {i.message.id: i for i in waiting if not i.has_lapsed(span.start)}

    def _sure(self, span: Span) -> list[Item]:
        """What a claim must find, whatever lapses ahead of it.

        A lapsed message that is not due yet may still stand at the head of its key.
        """

        def sure(item: Item) -> bool:
            is_open = item.has_lapsed(span.end) or not item.is_sure(span.start)
            return item.is_due(span.start) and not is_open

        if self.settings.ordering != "fifo":
            return [item for item in self.place(Place.WAITING) if sure(item)]
        found = []
        for lane in {item.message.key or "" for item in self.place(Place.WAITING)}:
            heads = self._heads(lane, span)
            hidden = any(
                item.has_lapsed(span.end)
                and not (item.is_due(span.start) and item.is_sure(span.start))
                for item in self._lane(lane)
            )
            if heads and all(map(sure, heads)) and not hidden:
                found.append(heads[0])
        return found

    def _lane(self, key: str | None) -> list[Item]:
        alive = (Place.WAITING, Place.CLAIMED)
        return [
            item
            for item in self.items.values()
            if item.place in alive and (item.message.key or "") == (key or "")
        ]

    def _heads(self, key: str | None, span: Span) -> list[Item]:
        """Which messages may be the next of their key.  One, unless transactions overlapped."""
        lane = self._lane(key)
        if any(item.place is Place.CLAIMED for item in lane):
            return []
        lane = [item for item in lane if not item.has_lapsed(span.start)]
        begun = [item for item in lane if not item.fresh and not item.requeued]
        if begun:
            return begun
        waiting = [item for item in lane if not item.requeued]
        return [
            item
            for item in lane
            if item.requeued
            or not any(o.message.before(item.message, by_insert=True) for o in waiting)
        ]

    def least(self, batch: int, span: Span) -> int:
        """How many messages a claim of this size must return."""
        least = min(batch, len(self._sure(span)))
        if self.direct and self.writer_is_open:
            # A batch may end at the oldest open transaction, but not in nothing.
            least = min(least, 1)
        return least

    def _check_complete(self, ids: list[int], batch: int, span: Span) -> None:
        least = self.least(batch, span)
        overlooked = [item for item in self._sure(span) if item.message.id not in ids]
        assert len(ids) >= least, f"got {len(ids)} of {batch}, overlooked {overlooked}"

    def _check_order(self, ids: list[int], span: Span) -> None:
        """Higher priority first, then log order for what was never claimed."""
        taken = [self.items[each] for each in ids]
        left = [item for item in self._sure(span) if item.message.id not in ids]
        if self.settings.ordering == "fifo":
            # Only heads that the queue has read are known to it; a lane that gave one is locked.
            lanes = {item.message.key or "" for item in taken}
            left = [item for item in left if item.placed and (item.message.key or "") not in lanes]
        priorities = [item.message.priority for item in taken]
        assert priorities == sorted(priorities, reverse=True), f"claimed in the order {priorities}"
        highest = max((item.message.priority for item in left), default=None)
        if priorities and highest is not None:
            assert highest <= priorities[-1], f"{highest} waits, {priorities} were claimed"
        for index, item in enumerate(taken):
            for other in taken[index + 1 :] + left:
                assert not self._in_order(other, item), f"{item} overtook {other}"

    def _in_order(self, first: Item, second: Item) -> bool:
        """Whether the queue's ordering promises the first ahead of the second."""
        one, two = first.message, second.message
        if not (first.fresh and second.fresh):
            return False
        match self.settings.ordering:
            case "standard":
                by_insert = self.settings.colour is not None
                return one.plain and two.plain and one.before(two, by_insert=by_insert)
            case "fair":
                same = one.key == two.key is not None and one.plain and two.plain
                return same and one.before(two, by_insert=True)
            case _:  # one of a key at a time: `_heads` has seen to it
                return False

    def _check_turns(self, ids: list[int], span: Span) -> None:
        """Within a priority no key waits while another has more than its share of turns."""

        def takes_a_turn(item: Item) -> bool:
            # A retry or a delayed message has waited already, it does not queue up again.
            message = item.message
            return item.fresh and message.key is not None and message.deliver_after is None

        waiting = [item for item in self._sure(span) if takes_a_turn(item)]
        for taken in [self.items[each] for each in ids]:
            waiting = [item for item in waiting if item is not taken]
            key, priority = taken.message.key, taken.message.priority
            if key is None or not takes_a_turn(taken):
                continue
            for item in waiting:
                if item.message.priority != priority:
                    continue
                if item.message.key == key:
                    item.passed.clear()  # its key had a turn
                elif self._leads_its_key(item):
                    item.passed[key] += 1
                    most = item.passed[key]
                    assert most <= TURNS_WHILE_WAITING, f"{key} had {most} turns, {item} none"

    def _leads_its_key(self, item: Item) -> bool:
        return not any(
            other.requeued or other.message.before(item.message, by_insert=True)
            for other in self._lane(item.message.key)
            if other is not item
            and other.place is Place.WAITING
            and other.message.priority == item.message.priority
        )


def committed(message: Message, step: int) -> Message:
    """The message as it is once its transaction has ended."""
    return replace(message, committed=step)
