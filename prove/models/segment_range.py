"""The range of segments that may hold messages, which the fast path of a claim reads.

A publisher chooses its segment in its snapshot, and writes later.  Segments rotate, are emptied,
and become idle when no open transaction can write to them any more; idle ones leave the range.
A claim reads the range and the end of its window in one snapshot, and the messages later.
In the engine rotating and retiring are one step of housekeeping, which one session does at a time.
Here they are two transactions at the same time, so that the row locks alone must do.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING

from prove.models.explorer import put

if TYPE_CHECKING:
    from collections.abc import Iterator

Range = tuple[int, int]


class Use(Enum):
    FREE = "free"
    CURRENT = "current"
    CLOSED = "closed"


class Phase(Enum):
    NEW = "new"
    CHOSEN = "chosen"
    WRITTEN = "written"
    COMMITTED = "committed"
    ABORTED = "aborted"


@dataclass(frozen=True, slots=True)
class Publisher:
    phase: Phase = Phase.NEW
    segment: int = -1


@dataclass(frozen=True, slots=True)
class Segment:
    """A row of segments."""

    use: Use = Use.FREE
    idle: bool = True
    leaving: frozenset[int] | None = None
    """Free: publishers whose transactions were open; None: not noted yet."""


@dataclass(frozen=True, slots=True)
class Rotating:
    """A transaction that has switched to a segment; settings: it has written them too."""

    closes: int
    opens: int
    settings: Range | None = None


@dataclass(frozen=True, slots=True)
class Retiring:
    """A transaction that found a free segment empty and keeps publishers out of it."""

    segment: int
    used: bool
    marked: bool = False
    """The row of the segment is written: idle, or closed if it was used."""
    skipped: bool = False
    """The row was not free any more."""
    computed: Range | None = None
    settings: bool = False
    """The row of settings is locked."""


@dataclass(frozen=True, slots=True)
class State:
    publishers: tuple[Publisher, ...]
    segments: tuple[Segment, ...]
    current: int
    range: Range
    rotations: int = 0
    rotating: Rotating | None = None
    retiring: Retiring | None = None
    seen: Range | None = None
    """The range that the claim has read."""
    window: frozenset[int] | None = None
    """Messages that the claim's window covers, and that were not read before."""
    read: frozenset[int] = frozenset()
    emptied: frozenset[int] = frozenset()


class SegmentRange:
    def __init__(
        self,
        *,
        publishers: int = 1,
        segments: int = 3,
        rotations: int = 2,
        one_snapshot: bool = True,
        waits_for_open: bool = True,
        settings_locked: bool = True,
        row_rechecked: bool = True,
        at_once: bool = True,
    ) -> None:
        self._publishers, self._segments, self._rotations = publishers, segments, rotations
        self._one_snapshot = one_snapshot
        self._waits_for_open = waits_for_open
        self._settings_locked = settings_locked
        self._row_rechecked = row_rechecked
        self._at_once = at_once

    def initial(self) -> State:
        first = Segment(Use.CURRENT, idle=False)
        return State(
            publishers=(Publisher(),) * self._publishers,
            segments=(first, *(Segment(),) * (self._segments - 1)),
            current=0,
            range=(0, 0),
        )

    def steps(self, state: State) -> Iterator[tuple[str, State]]:
        for number, publisher in enumerate(state.publishers):
            yield from self._publish(state, number, publisher)
        yield from self._claim(state)
        yield from self._rotate(state)
        for number, segment in enumerate(state.segments):
            yield from self._empty(state, number, segment)
            yield from self._note(state, number, segment)
        yield from self._retire(state)

    def _publish(
        self, state: State, number: int, publisher: Publisher
    ) -> Iterator[tuple[str, State]]:
        match publisher.phase:
            case Phase.NEW:
                chosen = Publisher(Phase.CHOSEN, state.current)
                yield f"{number} chooses segment {state.current}", _published(state, number, chosen)
            case Phase.CHOSEN:
                # Retiring and emptying lock out those who write to the segment.
                if not (state.retiring and state.retiring.segment == publisher.segment):
                    written = replace(publisher, phase=Phase.WRITTEN)
                    yield f"{number} writes", _published(state, number, written)
            case Phase.WRITTEN:
                for phase in (Phase.COMMITTED, Phase.ABORTED):
                    ended = replace(publisher, phase=phase)
                    yield f"{number} is {phase.value}", _published(state, number, ended)
            case _:
                return

    def _claim(self, state: State) -> Iterator[tuple[str, State]]:
        if state.window is not None:
            read = state.read | state.window
            yield "the window is read", replace(state, window=None, seen=None, read=read)
            return
        if state.seen is None and not self._one_snapshot:
            yield "a claim reads the range", replace(state, seen=state.range)
            return
        visible = frozenset(
            number
            for number, publisher in enumerate(state.publishers)
            if publisher.phase is Phase.COMMITTED
        )
        opened = replace(state, seen=state.seen or state.range, window=visible - state.read)
        yield "a claim opens its window", opened

    def _rotate(self, state: State) -> Iterator[tuple[str, State]]:
        rotating, retiring = state.rotating, state.retiring
        if rotating is None:
            yield from self._begin_to_rotate(state)
        elif rotating.settings is None:
            if not (retiring and retiring.settings):
                first, last = state.range
                wider = min(first, rotating.opens), max(last, rotating.opens)
                written = replace(rotating, settings=wider)
                yield "the switch writes settings", replace(state, rotating=written)
        else:
            segments = put(state.segments, rotating.closes, Segment(Use.CLOSED, idle=False))
            segments = put(segments, rotating.opens, Segment(Use.CURRENT, idle=False))
            yield (
                f"segment {rotating.opens} is opened",
                replace(
                    state,
                    segments=segments,
                    current=rotating.opens,
                    range=rotating.settings,
                    rotating=None,
                ),
            )
            yield "the switch is rolled back", replace(state, rotating=None)

    def _begin_to_rotate(self, state: State) -> Iterator[tuple[str, State]]:
        retiring = state.retiring
        if state.rotations == self._rotations or (retiring and not self._at_once):
            return
        for opens, segment in enumerate(state.segments):
            if segment.use is not Use.FREE:
                continue
            if retiring and retiring.marked and not retiring.skipped and retiring.segment == opens:
                # Retiring has written its row.
                continue
            begun = Rotating(state.current, opens)
            yield (
                f"a switch to segment {opens} begins",
                replace(state, rotating=begun, rotations=state.rotations + 1),
            )

    def _empty(self, state: State, number: int, segment: Segment) -> Iterator[tuple[str, State]]:
        rows = _rows(state, number)
        if state.retiring and state.retiring.segment == number:
            # It holds the lock that emptying wants.
            return
        if segment.use is Use.CLOSED and rows <= state.read and not _written_to(state, number):
            freed = replace(segment, use=Use.FREE, leaving=None)
            yield (
                f"segment {number} is emptied",
                replace(
                    state,
                    segments=put(state.segments, number, freed),
                    emptied=state.emptied | rows,
                ),
            )

    def _note(self, state: State, number: int, segment: Segment) -> Iterator[tuple[str, State]]:
        if segment.use is not Use.FREE or segment.idle or segment.leaving is not None:
            return
        if _locked(state, number):
            return
        noted = replace(segment, leaving=_open(state))
        yield (
            f"transactions are noted for segment {number}",
            replace(state, segments=put(state.segments, number, noted)),
        )

    def _retire(self, state: State) -> Iterator[tuple[str, State]]:
        retiring = state.retiring
        if retiring is None:
            if self._at_once or not state.rotating:
                yield from self._begin_to_retire(state)
        elif not retiring.marked:
            yield from self._mark(state, retiring)
        elif not retiring.settings:
            if retiring.computed is None and not self._settings_locked:
                computed = replace(retiring, computed=_range(state, retiring))
                yield "the range is computed", replace(state, retiring=computed)
            elif not (state.rotating and state.rotating.settings):
                locked = replace(retiring, settings=True)
                yield "settings are locked", replace(state, retiring=locked)
        else:
            done = replace(state, retiring=None)
            narrowed = retiring.computed or _range(state, retiring)
            yield (
                f"the range becomes {narrowed}",
                replace(done, range=narrowed, segments=_retired(state, retiring)),
            )
            yield "retiring is rolled back", done

    def _begin_to_retire(self, state: State) -> Iterator[tuple[str, State]]:
        for number, segment in enumerate(state.segments):
            if segment.use is not Use.FREE or segment.idle or segment.leaving is None:
                continue
            if self._waits_for_open and segment.leaving & _open(state):
                continue
            if not _written_to(state, number):
                begun = Retiring(number, used=bool(_rows(state, number)))
                yield f"segment {number} is looked at", replace(state, retiring=begun)

    def _mark(self, state: State, retiring: Retiring) -> Iterator[tuple[str, State]]:
        """Write the row of the segment, which a switch may have written since it was read."""
        if _locked(state, retiring.segment):
            return
        free = state.segments[retiring.segment].use is Use.FREE
        marked = replace(retiring, marked=True, skipped=self._row_rechecked and not free)
        yield f"segment {retiring.segment} is marked", replace(state, retiring=marked)

    def wrong(self, state: State) -> str:
        if state.window and state.seen:
            first, last = state.seen
            for number in state.window:
                if not first <= state.publishers[number].segment <= last:
                    return "a message of the window is outside of the range"
        return ""

    def settled(self, state: State) -> bool:
        return all(
            each.phase is Phase.ABORTED or (each.phase is Phase.COMMITTED and number in state.read)
            for number, each in enumerate(state.publishers)
        )


def _open(state: State) -> frozenset[int]:
    """Publishers whose transactions are open."""
    return frozenset(
        number
        for number, each in enumerate(state.publishers)
        if each.phase in (Phase.CHOSEN, Phase.WRITTEN)
    )


def _written_to(state: State, segment: int) -> bool:
    """An open transaction has written to it, so its lock can't be had."""
    return any(each.phase is Phase.WRITTEN and each.segment == segment for each in state.publishers)


def _rows(state: State, segment: int) -> frozenset[int]:
    return frozenset(
        number
        for number, each in enumerate(state.publishers)
        if each.phase is Phase.COMMITTED and each.segment == segment and number not in state.emptied
    )


def _locked(state: State, segment: int) -> bool:
    """A switch has written the row of the segment, and is not committed."""
    rotating = state.rotating
    return rotating is not None and segment in (rotating.closes, rotating.opens)


def _retired(state: State, retiring: Retiring) -> tuple[Segment, ...]:
    """The segments as retiring leaves them."""
    if retiring.skipped:
        return state.segments
    row = state.segments[retiring.segment]
    left = Segment(Use.CLOSED, idle=False) if retiring.used else replace(row, idle=True)
    return put(state.segments, retiring.segment, left)


def _range(state: State, retiring: Retiring) -> Range:
    """From the lowest to the highest segment that is not idle, as retiring sees them."""
    segments = enumerate(_retired(state, retiring))
    busy = [number for number, each in segments if not each.idle]
    return min(busy), max(busy)


def _published(state: State, number: int, publisher: Publisher) -> State:
    return replace(state, publishers=put(state.publishers, number, publisher))
