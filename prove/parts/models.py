"""The engine's protocols as small models, of which every state is visited."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from prove.model import Outcome, Part
from prove.models.explorer import explore
from prove.models.fencing import Fencing
from prove.models.fifo import Fifo
from prove.models.windows import Windows

if TYPE_CHECKING:
    from prove.model import Take
    from prove.models.explorer import Model

BROKEN: dict[str, Model[Any]] = {
    "claims, any token accepted": Fencing(token_checked=False),
    "windows, only the highest id remembered": Windows(snapshots=False),
    "rotation, no second look under the lock": Windows(second_look=False),
    "fifo, only the highest receipt remembered": Fifo(snapshots=False),
    "fifo, promoted before the ack commits": Fifo(promoted_when_finished=False),
}


def play(take: Take) -> Outcome:
    return _sabotaged(take) if take.sabotaged else _honest(take)


def _honest(take: Take) -> Outcome:
    models: dict[str, Model[Any]] = {
        "claims and fencing": Fencing(),
        "windows and rotation": Windows(),
        "fifo promotion": Fifo(),
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
    promise="In no order of steps is a stale token accepted, a message skipped, read twice or "
    "emptied away unread, or a key's order broken; and from everywhere things still end well.",
    how="Three small models, of claims and tokens, of windows and rotating segments, and of fifo "
    "promotion, are explored whole.",
    sabotage="five variants, each with one rule left out, all of which must fail",
    breaks=frozenset({"variants"}),
    play=play,
)
