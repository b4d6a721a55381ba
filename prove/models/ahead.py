"""Claims ahead of the position: one claim moves it, others take what lies before it.

A transaction is what it has written and locked; others see nothing of it until it commits, and
nothing of it is left when it rolls back.  A claim looks with one snapshot and locks a message a
moment later, so it looks again when it has the lock.
The claim that moves the position takes the first message that is not noted as claimed ahead.  It
passes over what is noted, and stops before what others have locked.
With keys, one message of a key is under way at a time; those behind it wait in a backlog once the
position has passed them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from prove.models.explorer import put

if TYPE_CHECKING:
    from collections.abc import Iterator

Ids = frozenset[int]
NONE: Ids = frozenset()


@dataclass(frozen=True, slots=True)
class Stored:
    """What is committed, or what a transaction sees."""

    position: int = 0
    """The first message that is still ahead."""
    notes: Ids = NONE
    claimed: Ids = NONE
    backlog: Ids = NONE
    entered: Ids = NONE
    """With keys: messages whose lanes are busy because of them, until they are finished."""


@dataclass(frozen=True, slots=True)
class Transaction:
    moves: bool = False
    """It holds the claim lock, so it may move the position."""
    locks: Ids = NONE
    claimed: Ids = NONE
    noted: Ids = NONE
    passed: Ids = NONE
    """Notes that it has deleted."""
    position: int | None = None
    held_back: Ids = NONE
    """Messages that it has put into the backlog."""
    promoted: Ids = NONE
    entered: Ids = NONE


@dataclass(frozen=True, slots=True)
class Look:
    """A claim has its snapshot, and not yet its lock."""

    moves: bool
    position: int
    notes: Ids


@dataclass(frozen=True, slots=True)
class State:
    stored: Stored
    open: tuple[Transaction | None, ...]
    doing: tuple[Look | None, ...]
    finished: Ids = NONE


class Ahead:
    def __init__(
        self,
        *,
        consumers: int = 2,
        messages: int = 3,
        keys: str = "",
        mover_locks: bool = True,
        note_written: bool = True,
        ahead_looks_again: bool = True,
        mover_looks_again: bool = True,
        one_snapshot: bool = True,
        stops_before_locked: bool = True,
        passes_noted: bool = True,
        lane_entered: bool = True,
        note_holds_lane: bool = True,
        first_of_key: bool = True,
    ) -> None:
        self._consumers, self._messages = consumers, len(keys) or messages
        self._keys = keys
        self._mover_locks = mover_locks
        self._note_written = note_written
        self._ahead_looks_again = ahead_looks_again
        self._mover_looks_again = mover_looks_again
        self._one_snapshot = one_snapshot
        self._stops_before_locked = stops_before_locked
        self._passes_noted = passes_noted
        self._lane_entered = lane_entered
        self._note_holds_lane = note_holds_lane
        self._first_of_key = first_of_key

    def initial(self) -> State:
        return State(Stored(), (None,) * self._consumers, (None,) * self._consumers)

    def steps(self, state: State) -> Iterator[tuple[str, State]]:
        for who in range(self._consumers):
            look = state.doing[who]
            if look is None:
                yield from self._look(state, who)
            else:
                idle = replace(state, doing=put(state.doing, who, None))
                yield (self._move if look.moves else self._ahead)(idle, who, look)
        for who, transaction in enumerate(state.open):
            if transaction and state.doing[who] is None:
                ended = replace(state, open=put(state.open, who, None))
                yield f"{who} rolls back", ended
                stored = _seen(state.stored, transaction)
                yield f"{who} commits", replace(ended, stored=stored)
        if self._keys:
            for message in sorted(state.stored.claimed - state.finished):
                finished = state.finished | {message}
                yield f"{message} is acked", replace(state, finished=finished)

    def _look(self, state: State, who: int) -> Iterator[tuple[str, State]]:
        """The claim lock, or ahead of the one who has it; then a look at the queue."""
        moves = not any(
            other != who and transaction and transaction.moves
            for other, transaction in enumerate(state.open)
        )
        seen = _view(state, who)
        if seen.position == self._messages and not seen.backlog:
            return
        mine = state.open[who] or Transaction()
        opened = put(state.open, who, replace(mine, moves=mine.moves or moves))
        look = Look(moves, seen.position, seen.notes)
        yield f"{who} looks", replace(state, open=opened, doing=put(state.doing, who, look))

    def _move(self, state: State, who: int, look: Look) -> tuple[str, State]:
        """Take the next message, and move the position behind it."""
        seen = _view(state, who)
        mine = state.open[who] or Transaction()
        for message in sorted(seen.backlog):
            if not self._under_way(state, seen, message):
                changed = replace(
                    mine,
                    promoted=mine.promoted | {message},
                    claimed=mine.claimed | {message},
                    entered=mine.entered | {message},
                )
                return f"{who} claims {message} of the backlog", _with(state, who, changed)
        notes = seen.notes if self._mover_looks_again else look.notes
        position = seen.position
        while position < self._messages:
            message = position
            if message in notes and self._passes_noted:
                mine = replace(mine, passed=mine.passed | {message})
                if self._lane_entered:
                    mine = replace(mine, entered=mine.entered | {message})
            elif self._locked(state, who, message):
                if self._stops_before_locked:
                    break
            else:
                if self._mover_locks:
                    mine = replace(mine, locks=mine.locks | {message})
                seen = _seen(state.stored, mine)
                if not self._keys or not self._waits(state, seen, message):
                    changed = replace(
                        mine,
                        position=position + 1,
                        claimed=mine.claimed | {message},
                        entered=mine.entered | {message},
                    )
                    return f"{who} claims {message}", _with(state, who, changed)
                mine = replace(mine, held_back=mine.held_back | {message})
            position += 1
        changed = replace(mine, position=position)
        return f"{who} moves to {position} and claims nothing", _with(state, who, changed)

    def _ahead(self, state: State, who: int, look: Look) -> tuple[str, State]:
        """Take a message that the position has not passed, and note it."""
        seen = _view(state, who)
        mine = state.open[who] or Transaction()
        for message in self._free(state, seen, look.position, look.notes):
            if self._locked(state, who, message):
                continue
            mine = replace(mine, locks=mine.locks | {message})
            if self._ahead_looks_again:
                position = seen.position if self._one_snapshot else look.position
                if message not in self._free(state, seen, position, seen.notes):
                    continue
            changed = replace(mine, claimed=mine.claimed | {message})
            if self._note_written:
                changed = replace(changed, noted=changed.noted | {message})
            return f"{who} claims {message} ahead", _with(state, who, changed)
        return f"{who} finds nothing ahead", _with(state, who, mine)

    def _free(self, state: State, seen: Stored, position: int, notes: Ids) -> list[int]:
        """Messages that a claim ahead may try, by what it sees."""
        unread = [each for each in range(position, self._messages) if each not in notes]
        if not self._keys:
            return unread
        held = notes if self._note_holds_lane else NONE
        lanes = {self._keys[each] for each in held}
        found: dict[str, int] = {}
        for message in unread:
            name = self._keys[message]
            if name in lanes or self._waits(state, seen, message):
                continue
            found.setdefault(name if self._first_of_key else str(message), message)
        return list(found.values())

    def _waits(self, state: State, seen: Stored, message: int) -> bool:
        """Its lane is busy, or others wait in it."""
        key = self._keys[message]
        return any(self._keys[each] == key for each in seen.backlog) or self._under_way(
            state, seen, message
        )

    def _under_way(self, state: State, seen: Stored, message: int) -> bool:
        key = self._keys[message]
        return any(self._keys[each] == key for each in seen.entered - state.finished)

    def _locked(self, state: State, who: int, message: int) -> bool:
        return any(
            other != who and transaction and message in transaction.locks
            for other, transaction in enumerate(state.open)
        )

    def wrong(self, state: State) -> str:
        stored = state.stored
        held = [*stored.claimed, *(id_ for each in state.open if each for id_ in each.claimed)]
        unread = [
            each for each in range(stored.position, self._messages) if each not in stored.notes
        ]
        places = [*stored.claimed, *stored.backlog, *unread]
        broken = {
            "a message was claimed twice": len(set(held)) < len(held),
            "a message is in two places": len(set(places)) < len(places),
            "a message was lost": len(set(places)) < self._messages,
            "a note that is not passed": any(each < stored.position for each in stored.notes),
        }
        if self._keys:
            under_way = [self._keys[each] for each in held if each not in state.finished]
            early = any(
                each < message and self._keys[each] == self._keys[message]
                for message in held
                for each in range(self._messages)
                if each not in state.finished
            )
            broken["two messages of a key at a time"] = len(set(under_way)) < len(under_way)
            broken["a message before an earlier one of its key"] = early
        return next((promise for promise, is_broken in broken.items() if is_broken), "")

    def settled(self, state: State) -> bool:
        done = state.finished if self._keys else state.stored.claimed
        return len(done) == self._messages


def _view(state: State, who: int) -> Stored:
    transaction = state.open[who]
    return _seen(state.stored, transaction) if transaction else state.stored


def _seen(stored: Stored, transaction: Transaction) -> Stored:
    return Stored(
        stored.position if transaction.position is None else transaction.position,
        (stored.notes | transaction.noted) - transaction.passed,
        stored.claimed | transaction.claimed,
        (stored.backlog | transaction.held_back) - transaction.promoted,
        stored.entered | transaction.entered,
    )


def _with(state: State, who: int, transaction: Transaction) -> State:
    return replace(state, open=put(state.open, who, transaction))
