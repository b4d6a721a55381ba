"""The log read in windows of two snapshots, while its segments rotate and are emptied.

A writer gets its transaction id and chooses its segment in any order, writes, and commits or rolls
back whenever it likes.  A reader reads a window to its end and then opens the next.  A segment that
was closed is emptied in two looks: one in passing, one under a lock that no writer holds.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

SEGMENTS = 2
ROTATIONS = 2

Snapshot = tuple[int, frozenset[int]]
"""The first transaction id not yet given, and those that were open."""


class Phase(Enum):
    WORKING = "working"
    WRITTEN = "written"
    COMMITTED = "committed"
    ABORTED = "aborted"


@dataclass(frozen=True, slots=True)
class Writer:
    phase: Phase = Phase.WORKING
    xid: int = 0
    segment: int = -1


@dataclass(frozen=True, slots=True)
class State:
    writers: tuple[Writer, ...]
    next_xid: int = 1
    current: int = 0
    closed: frozenset[int] = frozenset()
    looked: frozenset[int] = frozenset()
    """Closed, and found unneeded at the first look."""
    rotations: int = 0
    window_from: Snapshot = (1, frozenset())
    window_to: Snapshot = (1, frozenset())
    last: int | None = None
    """The id read last in the window; None: the window is read."""
    read: tuple[int, ...] = ()
    emptied: frozenset[int] = frozenset()
    """Writers whose message was in a segment that was emptied."""


class Windows:
    def __init__(
        self, *, writers: int = 2, snapshots: bool = True, second_look: bool = True
    ) -> None:
        self._writers = writers
        self._snapshots = snapshots
        self._second_look = second_look

    def initial(self) -> State:
        return State(writers=(Writer(),) * self._writers)

    def steps(self, state: State) -> Iterator[tuple[str, State]]:
        for number, writer in enumerate(state.writers):
            yield from self._write(state, number, writer)
        yield from self._read(state)
        yield from self._rotate(state)

    def _write(self, state: State, number: int, writer: Writer) -> Iterator[tuple[str, State]]:
        match writer.phase:
            case Phase.WORKING:
                if not writer.xid:
                    yield (
                        f"{number} gets xid {state.next_xid}",
                        replace(
                            _written(state, number, replace(writer, xid=state.next_xid)),
                            next_xid=state.next_xid + 1,
                        ),
                    )
                if writer.segment < 0:
                    chosen = replace(writer, segment=state.current)
                    yield (
                        f"{number} chooses segment {state.current}",
                        _written(state, number, chosen),
                    )
                if writer.xid and writer.segment >= 0:
                    done = replace(writer, phase=Phase.WRITTEN)
                    yield f"{number} writes", _written(state, number, done)
            case Phase.WRITTEN:
                for phase in (Phase.COMMITTED, Phase.ABORTED):
                    ended = _written(state, number, replace(writer, phase=phase))
                    yield f"{number} is {phase.value}", ended
            case _:
                return

    def _read(self, state: State) -> Iterator[tuple[str, State]]:
        if not self._snapshots:
            yield from self._read_beyond_the_last(state)
            return
        if state.last is None:
            now = _snapshot(state)
            if now != state.window_to:
                opened = replace(state, window_from=state.window_to, window_to=now, last=0)
                yield "a window is opened", opened
            return
        rest = [
            (writer.xid, number)
            for number, writer in enumerate(state.writers)
            if _there(state, number)
            and writer.xid > state.last
            and _visible(writer.xid, state.window_to)
            and not _visible(writer.xid, state.window_from)
        ]
        if rest:
            xid, number = min(rest)
            yield f"{number} is read", replace(state, last=xid, read=(*state.read, number))
        else:
            yield "the window is read", replace(state, last=None)

    def _read_beyond_the_last(self, state: State) -> Iterator[tuple[str, State]]:
        """The classic mistake: remember the highest id, and read what is above."""
        last = state.last or 0
        rest = [
            (writer.xid, number)
            for number, writer in enumerate(state.writers)
            if _there(state, number) and writer.xid > last
        ]
        if rest:
            xid, number = min(rest)
            yield f"{number} is read", replace(state, last=xid, read=(*state.read, number))

    def _rotate(self, state: State) -> Iterator[tuple[str, State]]:
        following = (state.current + 1) % SEGMENTS
        if state.rotations < ROTATIONS and following not in state.closed:
            yield (
                f"segment {following} is opened",
                replace(
                    state,
                    current=following,
                    closed=state.closed | {state.current},
                    rotations=state.rotations + 1,
                ),
            )
        for segment in state.closed:
            if segment not in state.looked and self._needless(state, segment):
                yield (
                    f"segment {segment} seems read",
                    replace(state, looked=state.looked | {segment}),
                )
        for segment in state.looked:
            yield from self._empty(state, segment)

    def _empty(self, state: State, segment: int) -> Iterator[tuple[str, State]]:
        inside = [
            number
            for number, writer in enumerate(state.writers)
            if writer.segment == segment and number not in state.emptied
        ]
        if any(state.writers[number].phase is Phase.WRITTEN for number in inside):
            # The lock is not to be had.
            return
        if self._second_look and not self._needless(state, segment):
            yield (
                f"segment {segment} is needed after all",
                replace(state, looked=state.looked - {segment}),
            )
            return
        rows = {number for number in inside if state.writers[number].phase is Phase.COMMITTED}
        yield (
            f"segment {segment} is emptied",
            replace(
                state,
                closed=state.closed - {segment},
                looked=state.looked - {segment},
                emptied=state.emptied | rows,
            ),
        )

    def _needless(self, state: State, segment: int) -> bool:
        """No row in it that the reader has not passed: uncommitted ones can't be seen."""
        if not self._snapshots:
            return all(
                number in state.read
                for number, writer in enumerate(state.writers)
                if writer.segment == segment and _there(state, number)
            )
        seen = state.window_to if state.last is None else state.window_from
        return all(
            writer.xid < seen[0] and writer.xid not in seen[1]
            for number, writer in enumerate(state.writers)
            if writer.segment == segment and _there(state, number)
        )

    def wrong(self, state: State) -> str:
        if len(set(state.read)) < len(state.read):
            return "a message was read twice"
        if state.emptied - set(state.read):
            return "a message was emptied away unread"
        return ""

    def settled(self, state: State) -> bool:
        return all(
            writer.phase is Phase.ABORTED
            or (writer.phase is Phase.COMMITTED and number in state.read)
            for number, writer in enumerate(state.writers)
        )


def _there(state: State, number: int) -> bool:
    return state.writers[number].phase is Phase.COMMITTED and number not in state.emptied


def _snapshot(state: State) -> Snapshot:
    running = (
        writer.xid
        for writer in state.writers
        if writer.xid and writer.phase in (Phase.WORKING, Phase.WRITTEN)
    )
    return state.next_xid, frozenset(running)


def _visible(xid: int, snapshot: Snapshot) -> bool:
    return xid < snapshot[0] and xid not in snapshot[1]


def _written(state: State, number: int, writer: Writer) -> State:
    writers = state.writers
    return replace(state, writers=(*writers[:number], writer, *writers[number + 1 :]))
