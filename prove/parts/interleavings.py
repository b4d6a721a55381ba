"""Real sessions in every order of their statements: none of the anomalies."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

import psycopg

from prove.interleavings.anomalies import ANOMALIES
from prove.interleavings.search import search
from prove.interleavings.slices import SLICES, SLICES_IN_SHORT
from prove.model import Outcome, Part
from prove.sabotage import NO_LOCK, NO_SLICE_LOCK, NO_TURNS, rewrite
from prove.servers import mortal

if TYPE_CHECKING:
    from prove.interleavings.search import Searched
    from prove.model import Take

VARIANTS = (NO_TURNS, NO_LOCK, NO_SLICE_LOCK)


def play(take: Take) -> Outcome:
    if not take.sabotaged:
        searched = _search(take)
        counts = {each.anomaly: each.played for each in searched}
        broken = {each.anomaly: len(each.found) for each in searched if each.found}
        return Outcome({"interleavings": sum(counts.values()), **counts}, broken)
    caught = [any(each.found for each in _search(take, variant)) for variant in VARIANTS]
    # One variant that gets away is one too many.
    broken = {"variants": len(VARIANTS)} if all(caught) else {}
    return Outcome({"variants": len(VARIANTS), "caught": sum(caught)}, broken)


def _search(take: Take, sabotage: tuple[str, str] | None = None) -> list[Searched]:
    with mortal(synchronous_commit="off", fsync="off") as server, ExitStack() as stack:
        db, *sessions = [
            stack.enter_context(psycopg.connect(server.dsn(), autocommit=True)) for _ in range(4)
        ]
        if sabotage:
            rewrite(db, *sabotage)
        found = []
        short = take.quick or take.sabotaged
        for anomaly in (*ANOMALIES, *(SLICES_IN_SHORT if short else SLICES)):
            take.say(anomaly.name)
            found.append(search(anomaly, db, sessions))
        return found


PART = Part(
    name="interleavings",
    promise="Whatever the order of their statements, sessions never see an aborted message, "
    "lose an ack or an extension, claim twice, store a dedupe key twice, deliver beyond the cap of "
    "attempts, overtake in a key, see half a batch or half a fan-out, lose a message of a slice, "
    "or claim after a pause.",
    how="Every order of the statements of two real sessions, with every way for their transactions "
    "to end, for each of eleven anomalies, and of three sessions for another; a statement that "
    "waits for a lock is told by the server.",
    sabotage="claims that do not take turns, claims that are changed without a lock, and slices "
    "that are not locked: three variants, all of which must fail",
    breaks=frozenset({"variants"}),
    play=play,
    enough={"interleavings": 1600},
)
