"""The engine's protocols as small models, of which every state is visited."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from prove.model import Outcome, Part
from prove.models.ahead import Ahead
from prove.models.explorer import explore
from prove.models.fencing import Fencing
from prove.models.fifo import Fifo
from prove.models.segment_range import SegmentRange
from prove.models.slices import Slices
from prove.models.windows import Windows

if TYPE_CHECKING:
    from prove.model import Take
    from prove.models.explorer import Model

#: Slices that consumers have left who are gone.
LEFT = ((1, (0, 1)), (2, (2,)))

SMALL: dict[str, Model[Any]] = {
    "claims ahead": Ahead(),
    "claims ahead, keys": Ahead(keys="xxy"),
    "slices": Slices(messages=3, cut=2),
    "slices, batches": Slices(batch=2),
    "slices, a lone consumer": Slices(consumers=1, messages=5, before=LEFT),
    "range of segments": SegmentRange(),
    "range of segments, one step of housekeeping": SegmentRange(row_rechecked=False, at_once=False),
}
LARGE: dict[str, Model[Any]] = {
    "claims ahead": Ahead(messages=4),
    "claims ahead, three consumers": Ahead(consumers=3),
    "claims ahead, keys": Ahead(keys="xyxx"),
    "slices": Slices(),
    "slices, three consumers": Slices(consumers=3, messages=3, cut=2),
    "slices, batches": Slices(batch=2),
    "slices, a lone consumer": Slices(consumers=1, messages=5, before=LEFT),
    "range of segments": SegmentRange(publishers=2),
    "range of segments, often switched": SegmentRange(rotations=3),
    "range of segments, one step of housekeeping": SegmentRange(row_rechecked=False, at_once=False),
}

BROKEN: dict[str, Model[Any]] = {
    "claims, any token accepted": Fencing(token_checked=False),
    "windows, only the highest id remembered": Windows(snapshots=False),
    "rotation, no second look under the lock": Windows(second_look=False),
    "fifo, only the highest receipt remembered": Fifo(snapshots=False),
    "fifo, promoted before the ack commits": Fifo(promoted_when_finished=False),
    "slices, not locked": Slices(slice_locked=False),
    "slices, a claim from one not written to it": Slices(slice_written=False),
    "slices, the position moved and the slice not written": Slices(rest_written=False),
    "slices, not ended by a pause": Slices(pause_ends_slices=False),
    "slices, forgotten while a claim of the last may roll back": Slices(remembers_locked=False),
    "slices, the log ahead of them": Slices(
        consumers=1, messages=5, before=LEFT, slices_before_log=False
    ),
    "pause, no care wanted after it": Slices(pause_wants_care=False),
    "range of segments, read before the window": SegmentRange(one_snapshot=False),
    "range of segments, open transactions ignored": SegmentRange(waits_for_open=False),
    "range of segments, settings not locked": SegmentRange(settings_locked=False),
    "range of segments, no second look at the row": SegmentRange(row_rechecked=False),
    "claims ahead, messages not locked by the claim that moves": Ahead(mover_locks=False),
    "claims ahead, not noted": Ahead(note_written=False),
    "claims ahead, notes not passed over": Ahead(passes_noted=False),
    "claims ahead, no second look": Ahead(ahead_looks_again=False),
    "claims ahead, no second look of the claim that moves": Ahead(mover_looks_again=False),
    "claims ahead, notes read later than the position": Ahead(one_snapshot=False),
    "claims ahead, the position passes what is locked": Ahead(stops_before_locked=False),
    "claims ahead, keys, not only the first of a key": Ahead(keys="xxy", first_of_key=False),
    "claims ahead, keys, a note doesn't hold its key": Ahead(keys="xxy", note_holds_lane=False),
    "claims ahead, keys, the lane not entered": Ahead(keys="xxy", lane_entered=False),
}


def play(take: Take) -> Outcome:
    return _sabotaged(take) if take.sabotaged else _honest(take)


def _honest(take: Take) -> Outcome:
    models: dict[str, Model[Any]] = {
        "claims and fencing": Fencing(),
        "windows and rotation": Windows(),
        "fifo promotion": Fifo(),
        **(SMALL if take.quick else LARGE),
    }
    counts: dict[str, int | float] = {}
    broken: dict[str, int] = {}
    for name, model in models.items():
        found = explore(model)
        counts[f"{name}: states"] = found.states
        counts[f"{name}: steps"] = found.steps
        if found.wrong:
            broken[f"{name}: {found.wrong}"] = 1
            take.say(f"{name}: {found.wrong}: {' → '.join(found.trace)}")
    return Outcome(counts, broken)


def _sabotaged(take: Take) -> Outcome:
    caught = 0
    for name, model in BROKEN.items():
        found = explore(model)
        take.say(f"{name}: {found.wrong or 'NOT caught'}: {' → '.join(found.trace)}")
        caught += bool(found.wrong)
    # One that gets away is one too many.
    return Outcome({"variants": len(BROKEN)}, {"variants": caught} if caught == len(BROKEN) else {})


PART = Part(
    name="models",
    promise="In no order of steps is a stale token accepted, a message skipped, read or claimed "
    "twice or emptied away unread, a key's order broken, or a message claimed after a pause; and "
    "from everywhere things still end well.",
    how="Six small models, of claims and tokens, of windows and rotating segments, of fifo "
    "promotion, of slices, of claims ahead of the position, and of the range of segments that a "
    "claim reads, are explored whole.",
    sabotage="26 variants, each with one rule left out, all of which must fail",
    breaks=frozenset({"variants"}),
    play=play,
)
