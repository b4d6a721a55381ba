"""fifo: a key's next message is promoted when the one before is finished.

An ack writes a receipt in a transaction that may stay open; only a claim promotes, from the
receipts that it sees, in windows of two snapshots.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

KEYS = 2
MESSAGES = 2
CONSUMERS = 2
MOST_CLAIMS = 5

Snapshot = tuple[int, frozenset[int]]


@dataclass(frozen=True, slots=True)
class Lane:
    """One key: which message is its head, and where that is."""

    head: int = 0
    claim: int = 0
    """The token that holds the head; 0: it is scheduled."""
    ended: bool = False
    finished: int = 0
    """How many of its messages have an ack that is committed."""


@dataclass(frozen=True, slots=True)
class Receipt:
    """An ack, under way or committed."""

    xid: int
    key: int
    message: int
    committed: bool = False


@dataclass(frozen=True, slots=True)
class State:
    lanes: tuple[Lane, ...] = (Lane(),) * KEYS
    hands: tuple[tuple[int, int, int] | None, ...] = (None,) * CONSUMERS
    """What each consumer works on: key, message, token."""
    receipts: tuple[Receipt, ...] = ()
    next_xid: int = 1
    seen: Snapshot = (1, frozenset())
    claims: int = 0
    together: bool = False
    """A message was handed out while the one before it was not finished."""


class Fifo:
    def __init__(self, *, snapshots: bool = True, promoted_when_finished: bool = True) -> None:
        self._snapshots = snapshots
        self._promoted_when_finished = promoted_when_finished

    def initial(self) -> State:
        return State()

    def steps(self, state: State) -> Iterator[tuple[str, State]]:
        yield from self._claim(state)
        for consumer, hand in enumerate(state.hands):
            if hand is not None:
                yield from self._work(state, consumer, *hand)
        for key, lane in enumerate(state.lanes):
            if lane.claim and not lane.ended and not _acking(state, key, lane.head):
                yield f"a claim of key {key} ends", _with(state, key, replace(lane, ended=True))
        for place, receipt in enumerate(state.receipts):
            if not receipt.committed:
                yield from self._end_ack(state, place, receipt)

    def _claim(self, state: State) -> Iterator[tuple[str, State]]:
        """Learn from the receipts, then take one head that is free or whose claim has ended."""
        if state.claims == MOST_CLAIMS:
            return
        learnt = self._learn(state)
        if learnt != state:
            yield "a claim finds nothing new", learnt
        for consumer, hand in enumerate(state.hands):
            if hand is not None:
                continue
            for key, lane in enumerate(learnt.lanes):
                if lane.head < MESSAGES and (not lane.claim or lane.ended):
                    token = state.claims + 1
                    taken = _with(learnt, key, replace(lane, claim=token, ended=False))
                    hands = list(taken.hands)
                    hands[consumer] = (key, lane.head, token)
                    yield (
                        f"{consumer} claims {lane.head} of key {key}",
                        replace(
                            taken,
                            hands=tuple(hands),
                            claims=token,
                            together=state.together or lane.finished < lane.head,
                        ),
                    )

    def _learn(self, state: State) -> State:
        """Promote the next of each key whose head has a receipt in the window."""
        now = (
            state.next_xid,
            frozenset(each.xid for each in state.receipts if not each.committed),
        )
        for receipt in state.receipts:
            if receipt.committed and self._in_window(receipt.xid, state.seen, now):
                lane = state.lanes[receipt.key]
                if lane.head == receipt.message:
                    state = _with(
                        state,
                        receipt.key,
                        replace(lane, head=lane.head + 1, claim=0, ended=False),
                    )
        return replace(state, seen=now)

    def _in_window(self, xid: int, before: Snapshot, now: Snapshot) -> bool:
        if not self._snapshots:
            return xid >= before[0]
        return _visible(xid, now) and not _visible(xid, before)

    def _work(
        self, state: State, consumer: int, key: int, message: int, token: int
    ) -> Iterator[tuple[str, State]]:
        hands = list(state.hands)
        hands[consumer] = None
        gone = replace(state, hands=tuple(hands))
        yield f"{consumer} dies", gone
        lane = state.lanes[key]
        held = lane.claim == token and not lane.ended and lane.head == message
        if not held:
            yield f"{consumer} is refused", gone
            return
        if _acking(state, key, message):
            return
        receipt = Receipt(state.next_xid, key, message)
        acked = replace(gone, receipts=(*state.receipts, receipt), next_xid=state.next_xid + 1)
        if not self._promoted_when_finished:
            # Promoted by the ack itself, committed or not.
            acked = _with(acked, key, replace(lane, head=message + 1, claim=0))
        yield f"{consumer} acks {message} of key {key}", acked
        yield f"{consumer} gives back", _with(gone, key, replace(lane, claim=0))

    def _end_ack(self, state: State, place: int, receipt: Receipt) -> Iterator[tuple[str, State]]:
        before, after = state.receipts[:place], state.receipts[place + 1 :]
        lane = state.lanes[receipt.key]
        done = replace(state, receipts=(*before, replace(receipt, committed=True), *after))
        yield (
            f"the ack {receipt.xid} commits",
            _with(
                done, receipt.key, replace(lane, finished=max(lane.finished, receipt.message + 1))
            ),
        )
        # Rolled back: the claim is there again, and ends some time.
        yield f"the ack {receipt.xid} is rolled back", replace(state, receipts=(*before, *after))

    def wrong(self, state: State) -> str:
        return "a message overtook the one before it" if state.together else ""

    def settled(self, state: State) -> bool:
        return all(lane.finished == MESSAGES for lane in state.lanes) or state.claims == MOST_CLAIMS


def _acking(state: State, key: int, message: int) -> bool:
    """An ack under way has locked the claim's row, one that is committed has deleted it."""
    return any((each.key, each.message) == (key, message) for each in state.receipts)


def _visible(xid: int, snapshot: Snapshot) -> bool:
    return xid < snapshot[0] and xid not in snapshot[1]


def _with(state: State, key: int, lane: Lane) -> State:
    return replace(state, lanes=(*state.lanes[:key], lane, *state.lanes[key + 1 :]))
