"""Least privilege: every function and table against every role."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg

from prove.attack import served
from prove.attack.rights import Inspector
from prove.model import Outcome, Part

if TYPE_CHECKING:
    from prove.model import Take

SABOTAGE = "grant execute on function penstock.purge_queue(text) to penstock_publisher"


def play(take: Take) -> Outcome:
    with served.database() as dsn:
        if take.sabotaged:
            with psycopg.connect(dsn, autocommit=True) as db:
                db.execute(SABOTAGE)
        inspector = Inspector(dsn)
        inspector.inspect()
    found = {"unexpected rights": inspector.unexpected, "missing rights": inspector.missing}
    lines = [f"{kind}: {each}" for kind, names in found.items() for each in names]
    (take.folder / "rights.txt").write_text("\n".join(lines), encoding="utf-8")
    for line in lines[:20]:
        take.say(line)
    return Outcome(
        {
            "rights checked": inspector.checked,
            **{kind: len(names) for kind, names in found.items()},
        },
        {kind: len(names) for kind, names in found.items() if names},
    )


PART = Part(
    name="rights",
    promise="Each role may do what the roles' page says of it, and nothing else; a user without a "
    "role may do nothing.",
    how="Every function of the engine is asked about for each role in the catalogue, and called "
    "by a login of the role; every table, view, sequence and schema with every privilege; every "
    "action of SQS.",
    sabotage="one grant too many: publishers may purge queues",
    breaks=frozenset({"unexpected rights"}),
    play=play,
    enough={"rights checked": 5_000},
)
