"""Slices: claims that take turns cut them, claims beside those take from them.

A transaction is what it has written and locked; others see nothing of it until it commits, and
nothing of it is left when it rolls back.  A statement looks with its snapshot, and locks a moment
later: then it gets the newest version of a row, or none if the row is locked or gone.
A pause and housekeeping are transactions too.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from prove.models.explorer import put

if TYPE_CHECKING:
    from collections.abc import Iterator

Rows = tuple[tuple[int, tuple[int, ...]], ...]
"""Slices: the name of each, and its messages."""


@dataclass(frozen=True, slots=True)
class Stored:
    """What is committed, or what a transaction sees."""

    position: int = 0
    """The first message that is still ahead."""
    sliced: bool = False
    """The position says that there are slices."""
    attend: bool = False
    """The position says that the next claim needs care."""
    slices: Rows = ()
    scheduled: frozenset[int] = frozenset()
    claimed: frozenset[int] = frozenset()
    paused: bool = False


@dataclass(frozen=True, slots=True)
class Transaction:
    lock: bool = False
    """It holds the claim lock."""
    rows: Rows = ()
    """Slices that it has locked, as it leaves them; without messages: deleted."""
    claimed: frozenset[int] = frozenset()
    picked: frozenset[int] = frozenset()
    """Claimed from the schedule."""
    returned: frozenset[int] = frozenset()
    """Put back into the schedule."""
    position: tuple[int, bool, bool] | None = None
    """Position, sliced, attend."""
    pauses: bool = False
    own: int = 0
    """The slice that the session had used last when it began: a setting is rolled back too."""


@dataclass(frozen=True, slots=True)
class Look:
    """A statement has its snapshot, and not yet its lock."""

    lock: bool
    """It wants the claim lock; else a slice."""
    names: tuple[int, ...] = ()
    paused: bool = False


@dataclass(frozen=True, slots=True)
class Turn:
    """A claim has the claim lock.  Paused: as seen by the statement that took the lock."""

    paused: bool
    waited: bool


@dataclass(frozen=True, slots=True)
class Waiting:
    """A claim waits for the claim lock."""


Doing = Look | Turn | Waiting | None


@dataclass(frozen=True, slots=True)
class State:
    stored: Stored
    open: tuple[Transaction | None, ...]
    """Of each consumer, then of the pause, then of housekeeping."""
    doing: tuple[Doing, ...]
    own: tuple[int, ...]
    """The slice that each consumer used last."""
    late: bool = False
    """A message was claimed after a pause had returned."""
    overtaken: bool = False
    """A lone consumer got a message before an earlier one."""


class Slices:
    def __init__(
        self,
        *,
        consumers: int = 2,
        messages: int = 4,
        batch: int = 1,
        cut: int = 3,
        before: Rows = (),
        slice_locked: bool = True,
        slice_written: bool = True,
        rest_written: bool = True,
        pause_ends_slices: bool = True,
        pause_wants_care: bool = True,
        remembers_locked: bool = True,
        slices_before_log: bool = True,
    ) -> None:
        self._consumers, self._messages = consumers, messages
        self._batch, self._cut, self._before = batch, cut, before
        self._slice_locked = slice_locked
        self._slice_written = slice_written
        self._rest_written = rest_written
        self._pause_ends_slices = pause_ends_slices
        self._pause_wants_care = pause_wants_care
        self._remembers_locked = remembers_locked
        self._slices_before_log = slices_before_log
        # A lone consumer is about order: no pause, no housekeeping.
        self._lone = consumers == 1

    def initial(self) -> State:
        count = self._consumers
        stored = Stored(
            position=sum(len(ids) for _, ids in self._before),
            sliced=bool(self._before),
            slices=self._before,
        )
        return State(stored, (None,) * (count + 2), (None,) * count, (0,) * count)

    def steps(self, state: State) -> Iterator[tuple[str, State]]:
        for label, following in self._steps(state):
            yield label, _renamed(following)

    def _steps(self, state: State) -> Iterator[tuple[str, State]]:
        for who in range(self._consumers):
            yield from self._consume(state, who)
        for who, transaction in enumerate(state.open):
            if transaction and (who >= self._consumers or state.doing[who] is None):
                ended = replace(state, open=put(state.open, who, None))
                stored = _seen(state.stored, transaction)
                yield f"{self._name(who)} commits", replace(ended, stored=stored)
                if who < self._consumers:
                    ended = replace(ended, own=put(state.own, who, transaction.own))
                yield f"{self._name(who)} rolls back", ended
        if not self._lone:
            yield from self._pause(state)
            yield from self._tend(state)

    # What a consumer does.

    def _consume(self, state: State, who: int) -> Iterator[tuple[str, State]]:
        doing = state.doing[who]
        match doing:
            case None:
                yield from self._look(state, who)
            case Look(lock=True):
                if self._lock_free(state, who):
                    turn = Turn(doing.paused, waited=False)
                    yield f"{who} gets the claim lock", _locked(_does(state, who, turn), who)
                else:
                    yield f"{who} waits for the claim lock", _does(state, who, Waiting())
            case Look():
                yield f"{who} finds no slice unused", _does(state, who, None)
                for label, taken in self._beside(state, who, doing.names):
                    yield label, _does(taken, who, None)
            case Waiting():
                if self._lock_free(state, who):
                    turn = Turn(_view(state, who).paused, waited=True)
                    yield f"{who} gets its turn", _locked(_does(state, who, turn), who)
            case Turn():
                for label, claimed in self._claim(state, who, doing):
                    yield label, _does(claimed, who, None)

    def _look(self, state: State, who: int) -> Iterator[tuple[str, State]]:
        seen = _view(state, who)
        if seen.sliced and seen.slices and not seen.paused:
            look = Look(lock=False, names=tuple(name for name, _ in seen.slices))
            yield f"{who} looks for slices", _does(state, who, look)
        look = Look(lock=True, paused=seen.paused)
        yield f"{who} looks for the claim lock", _does(state, who, look)

    def _beside(
        self, state: State, who: int, names: tuple[int, ...]
    ) -> Iterator[tuple[str, State]]:
        """Take from slices: the one used last, then the oldest ones that are free."""
        seen = _view(state, who)
        transaction = _transaction(state, who)
        free = {
            name: ids
            for name, ids in seen.slices
            if name in names and not (self._slice_locked and self._taken(state, who, name))
        }
        left = self._batch
        got: list[int] = []
        used = state.own[who]
        for name in sorted(free, key=lambda name: (name != used, name)):
            if not left:
                break
            part, rest = free[name][:left], free[name][left:]
            left -= len(part)
            got += part
            used = name
            kept = rest if self._slice_written else free[name]
            transaction = replace(transaction, rows=_row(transaction.rows, name, kept))
        if got:
            state = replace(state, own=put(state.own, who, used))
            yield f"{who} takes {got} of slices", self._claimed(state, who, transaction, got)

    def _claim(self, state: State, who: int, turn: Turn) -> Iterator[tuple[str, State]]:
        """Claim under the claim lock, with a newer snapshot than the statement that took it."""
        seen = _view(state, who)
        alone = not seen.sliced or not self._slices_before_log
        if not turn.paused and not seen.attend and not seen.scheduled and alone:
            yield from self._read(state, who, seen, sliced=seen.sliced)
            if not turn.waited:
                return
        if seen.paused:
            yield f"{who} finds the queue paused", state
            return
        if seen.sliced or turn.waited:
            names = tuple(name for name, _ in seen.slices) if seen.sliced else ()
            found = list(self._beside(state, who, names))
            yield from found or self._share(state, who, seen)
        yield from self._care(state, who, seen)

    def _read(
        self, state: State, who: int, seen: Stored, *, sliced: bool
    ) -> Iterator[tuple[str, State]]:
        """Claim from the log."""
        got = list(range(seen.position, min(seen.position + self._batch, self._messages)))
        transaction = _transaction(state, who)
        moved = replace(transaction, position=(seen.position + len(got), sliced, False))
        yield f"{who} claims {got} of the log", self._claimed(state, who, moved, got)

    def _care(self, state: State, who: int, seen: Stored) -> Iterator[tuple[str, State]]:
        """The schedule, then slices, then the log; a batch ends with what one of them has."""
        transaction = _transaction(state, who)
        sliced = seen.sliced and self._remembered(state, who, seen)
        if seen.scheduled:
            got = sorted(seen.scheduled)[: self._batch]
            position = (seen.position, sliced, False)
            picked = transaction.picked.union(got)
            changed = replace(transaction, picked=picked, position=position)
            yield f"{who} claims {got} of the schedule", self._claimed(state, who, changed, got)
            return
        names = tuple(name for name, _ in seen.slices) if seen.sliced else ()
        for label, taken in self._beside(state, who, names):
            sliced = self._remembered(taken, who, _view(taken, who))
            position = (seen.position, sliced, False)
            changed = replace(_transaction(taken, who), position=position)
            yield label, replace(taken, open=put(taken.open, who, changed))
            return
        yield from self._read(state, who, seen, sliced=sliced)

    def _share(self, state: State, who: int, seen: Stored) -> Iterator[tuple[str, State]]:
        """Cut a slice, and claim from it."""
        picked = sorted(seen.scheduled)[: self._cut]
        end = min(seen.position + self._cut - len(picked), self._messages)
        ids = (*picked, *range(seen.position, end))
        sliced = seen.sliced and self._remembered(state, who, seen)
        position = (end, sliced or bool(ids), False)
        transaction = _transaction(state, who)
        transaction = replace(
            transaction, picked=transaction.picked.union(picked), position=position
        )
        got, rest = list(ids[: self._batch]), ids[self._batch :]
        name = max([0, *_names(state)]) + 1
        if ids and self._rest_written:
            transaction = replace(transaction, rows=_row(transaction.rows, name, rest))
            state = replace(state, own=put(state.own, who, name))
        yield f"{who} cuts {list(ids)}", self._claimed(state, who, transaction, got)

    def _claimed(self, state: State, who: int, transaction: Transaction, got: list[int]) -> State:
        before = _view(state, who).claimed
        first = min((id_ for id_ in range(self._messages) if id_ not in before), default=0)
        changed = replace(transaction, claimed=transaction.claimed.union(got))
        return replace(
            state,
            open=put(state.open, who, changed),
            late=state.late or (bool(got) and state.stored.paused),
            overtaken=state.overtaken or (self._lone and bool(got) and got[0] != first),
        )

    def _remembered(self, state: State, who: int, seen: Stored) -> bool:
        """Whether the position is to say that there are slices: those locked by others count."""
        return any(
            self._remembers_locked or not self._taken(state, who, name) for name, _ in seen.slices
        )

    # What else there is.

    def _pause(self, state: State) -> Iterator[tuple[str, State]]:
        who = self._consumers
        stored = state.stored
        if stored.paused:
            yield "the queue is resumed", replace(state, stored=replace(stored, paused=False))
        elif not state.open[who] and self._lock_free(state, who):
            ended: Rows = ()
            if self._pause_ends_slices:
                if any(self._taken(state, who, name) for name, _ in stored.slices):
                    return
                ended = stored.slices
            transaction = Transaction(
                lock=True,
                rows=tuple((name, ()) for name, _ in ended),
                returned=frozenset(id_ for _, ids in ended for id_ in ids),
                position=(stored.position, stored.sliced, True) if self._pause_wants_care else None,
                pauses=True,
            )
            yield "a pause begins", replace(state, open=put(state.open, who, transaction))

    def _tend(self, state: State) -> Iterator[tuple[str, State]]:
        """Housekeeping puts back a slice that is unused, without the claim lock."""
        who = self._consumers + 1
        if state.open[who]:
            return
        for name, ids in state.stored.slices:
            if not self._taken(state, who, name):
                transaction = Transaction(rows=((name, ()),), returned=frozenset(ids))
                opened = replace(state, open=put(state.open, who, transaction))
                yield f"slice {name} is put back", opened

    def _lock_free(self, state: State, who: int) -> bool:
        return not any(
            other != who and transaction and transaction.lock
            for other, transaction in enumerate(state.open)
        )

    def _taken(self, state: State, who: int, name: int) -> bool:
        """Another transaction has locked the slice."""
        return any(
            other != who and transaction and any(name == each for each, _ in transaction.rows)
            for other, transaction in enumerate(state.open)
        )

    def _name(self, who: int) -> str:
        names = ("the pause", "housekeeping")
        return str(who) if who < self._consumers else names[who - self._consumers]

    def wrong(self, state: State) -> str:
        stored = state.stored
        held = [*stored.claimed, *(id_ for each in state.open if each for id_ in each.claimed)]
        places = [*stored.claimed, *stored.scheduled, *range(stored.position, self._messages)]
        places += [id_ for _, ids in stored.slices for id_ in ids]
        broken = {
            "a message was claimed after the pause": state.late,
            "a lone consumer got messages out of order": state.overtaken,
            "a message was claimed twice": len(set(held)) < len(held),
            "a message is in two places": len(set(places)) < len(places),
            "a message was lost": len(set(places)) < self._messages,
            "a slice that no claim finds": bool(stored.slices) and not stored.sliced,
        }
        return next((promise for promise, is_broken in broken.items() if is_broken), "")

    def settled(self, state: State) -> bool:
        return len(state.stored.claimed) == self._messages


def _view(state: State, who: int) -> Stored:
    """What a new statement of a session sees: what is committed, and what it has written."""
    transaction = state.open[who]
    return _seen(state.stored, transaction) if transaction else state.stored


def _seen(stored: Stored, transaction: Transaction) -> Stored:
    slices = dict(stored.slices)
    for name, ids in transaction.rows:
        if ids:
            slices[name] = ids
        else:
            slices.pop(name, None)
    position, sliced, attend = transaction.position or (
        stored.position,
        stored.sliced,
        stored.attend,
    )
    return Stored(
        position,
        sliced,
        attend,
        tuple(sorted(slices.items())),
        (stored.scheduled | transaction.returned) - transaction.picked,
        stored.claimed | transaction.claimed,
        stored.paused or transaction.pauses,
    )


def _names(state: State) -> list[int]:
    """Slices that something still knows of."""
    names = {name for name, _ in state.stored.slices}
    names.update(name for each in state.open if each for name, _ in each.rows)
    names.update(name for each in state.doing if isinstance(each, Look) for name in each.names)
    return sorted(names)


def _renamed(state: State) -> State:
    """The same with the lowest names in the same order: only their order counts."""
    new = {name: place for place, name in enumerate(_names(state), 1)}
    used = [*state.own, *(each.own for each in state.open if each)]
    if all(old == name for old, name in new.items()) and all(own in (0, *new) for own in used):
        return state

    def rows(old: Rows) -> Rows:
        return tuple((new[name], ids) for name, ids in old)

    return replace(
        state,
        stored=replace(state.stored, slices=rows(state.stored.slices)),
        open=tuple(
            each and replace(each, rows=rows(each.rows), own=new.get(each.own, 0))
            for each in state.open
        ),
        doing=tuple(
            replace(each, names=tuple(new[name] for name in each.names))
            if isinstance(each, Look)
            else each
            for each in state.doing
        ),
        own=tuple(new.get(own, 0) for own in state.own),
    )


def _row(rows: Rows, name: int, ids: tuple[int, ...]) -> Rows:
    return tuple(sorted({**dict(rows), name: ids}.items()))


def _transaction(state: State, who: int) -> Transaction:
    """Of a consumer: the one that is open, or a new one."""
    return state.open[who] or Transaction(own=state.own[who])


def _locked(state: State, who: int) -> State:
    transaction = replace(_transaction(state, who), lock=True)
    return replace(state, open=put(state.open, who, transaction))


def _does(state: State, who: int, doing: Doing) -> State:
    return replace(state, doing=put(state.doing, who, doing))
