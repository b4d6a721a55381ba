"""Hostile names through every door."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING

from prove.attack import picture, sabotage, served
from prove.attack.doors import Sqs, in_process
from prove.attack.hostile_names import hostile_names
from prove.model import Outcome, Part
from tests.sqs.running import ADMIN

if TYPE_CHECKING:
    from prove.attack.doors import Door
    from prove.model import Take


def play(take: Take) -> Outcome:
    names = hostile_names(take.size(full=500, quick=60, twin=60), take.luck)
    counts = {"names": len(names), "uses": 0, "accepted": 0, "refused": 0}
    found: dict[str, list[str]] = {"changed": [], "unclear errors": []}
    with (
        sabotage.names_in_sql() if take.sabotaged else nullcontext(),
        served.database() as dsn,
        served.sqs(dsn, take.folder, (ADMIN,)) as server,
    ):
        picture.plant(dsn)
        with in_process(dsn) as doors:
            for door in (*doors, Sqs(server.url, ADMIN)):
                _attack(door, names, dsn, counts, found)
                take.say(f"{door.name}: {counts['uses']} uses so far")
    lines = [f"{kind}: {each}" for kind, lines in found.items() for each in lines]
    (take.folder / "findings.txt").write_text("\n".join(lines), encoding="utf-8")
    for line in lines[:20]:
        take.say(line)
    return Outcome(
        {**counts, **{kind: len(lines) for kind, lines in found.items()}},
        {kind: len(lines) for kind, lines in found.items() if lines},
    )


def _attack(
    door: Door, names: list[str], dsn: str, counts: dict[str, int], found: dict[str, list[str]]
) -> None:
    before = picture.taken(dsn)
    made: set[str] = set()
    for name in names:
        counts["uses"] += 1
        try:
            made |= door.use(name)
            counts["accepted"] += 1
        except door.refusals:
            counts["refused"] += 1
        except Exception as problem:  # noqa: BLE001 - that is what is looked for
            shown = f"{type(problem).__name__}: {problem}"[:200]
            found["unclear errors"].append(f"{door.name} {name[:60]!r}: {shown}")
    middle = picture.taken(dsn)
    extra = middle.topics - before.topics - made
    found["changed"] += [f"{door.name} made a topic {each!r}" for each in extra]
    for name in made:
        door.undo(name)
    after = picture.taken(dsn)
    found["changed"] += [f"{door.name} left {each}" for each in before.difference(after)]


PART = Part(
    name="names",
    promise="A name is a name: whatever is in it, it is taken as it is or refused with a clear "
    "error, and nothing else changes.",
    how="500 names (SQL, control characters, look-alikes, paths, formats, very long ones) as "
    "topics, queues, keys, headers, tenants, tables and tags through SQL, Python, tasks, the "
    "command line, Spark's options and SQS. The catalogue, all names and a canary's messages are "
    "compared before and after.",
    sabotage="one call writes the name into its SQL",
    breaks=frozenset({"changed"}),
    play=play,
    enough={"names": 500, "uses": 3_000},
)
