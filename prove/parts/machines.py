"""Every door against its model, by steps that hypothesis strings together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prove.machines.crew import explore
from prove.machines.doors import DOORS
from prove.model import Outcome, Part
from tests.tasks import mariadb

if TYPE_CHECKING:
    from prove.machines.crew import Explored
    from prove.model import Take

STEPS = 20_000
#: A twin that is not noticed within these gets away.
TWIN_STEPS = 8_000


def play(take: Take) -> Outcome:
    try:
        mariadb.program("mariadbd")
    except mariadb.Missing as problem:
        return Outcome(skipped=str(problem))
    steps = TWIN_STEPS if take.sabotaged else take.size(full=STEPS, quick=200)
    found = explore(take, DOORS, steps)
    return _twin(take, found) if take.sabotaged else _honest(take, found)


def _honest(take: Take, found: dict[str, Explored]) -> Outcome:
    broken: dict[str, int] = {}
    for name, each in found.items():
        if wrong := each.wrong or each.trouble:
            take.say(f"{name}: {wrong}")
            broken[f"{name}: {'disagrees' if each.wrong else 'failed'}"] = 1
    steps = {name: found[name].steps for name in DOORS}
    counts = {f"{name}: steps": count for name, count in steps.items()}
    return Outcome({"steps": sum(steps.values()), **counts}, broken)


def _twin(take: Take, found: dict[str, Explored]) -> Outcome:
    for name, each in found.items():
        said = each.wrong.splitlines()[0] if each.wrong else each.trouble or "NOT caught"
        take.say(f"{name}, {DOORS[name].sabotage}: {said}")
    caught = sum(bool(each.wrong) for each in found.values())
    counts = {f"{name}: steps until caught": found[name].steps for name in DOORS}
    # One that gets away is one too many.
    broken = {"variants": caught} if caught == len(DOORS) else {}
    return Outcome({"variants": len(DOORS), "caught": caught, **counts}, broken)


PART = Part(
    name="machines",
    promise="Whatever is done in whatever order, every door does what its model says: SQL, Python, "
    "tasks on both databases, and SQS through boto3.",
    how="Hypothesis strings steps together, of consumers and publishers, open transactions, the "
    "clock and housekeeping; after each, what the door shows is compared with a simple model. "
    "Counted are steps that were made and compared.",
    sabotage="one line for each door: "
    + "; ".join(f"{door.name}, {door.sabotage}" for door in DOORS.values())
    + "; five variants, all of which must be noticed",
    breaks=frozenset({"variants"}),
    play=play,
    enough={f"{name}: steps": STEPS for name in DOORS},
)
