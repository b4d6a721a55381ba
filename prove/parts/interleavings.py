"""Two sessions in every order of their steps: none of eight anomalies shows up."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg

from prove.interleavings.anomalies import ANOMALIES
from prove.interleavings.sessions import orders, run
from prove.model import Outcome, Part
from prove.servers import mortal

if TYPE_CHECKING:
    from prove.interleavings.anomalies import Anomaly
    from prove.model import Take

QUEUES = ("q", "q2")


def play(take: Take) -> Outcome:
    chosen = [each for each in ANOMALIES if each.sabotage or not take.sabotaged]
    counts: dict[str, int] = {}
    broken: dict[str, int] = {}
    with mortal(synchronous_commit="off", fsync="off") as server:
        for anomaly in chosen:
            total, bad = _all_orders(take, server.dsn(), anomaly)
            counts[anomaly.name] = total
            if bad:
                broken[anomaly.name] = bad
    if not take.sabotaged:
        return Outcome({"interleavings": sum(counts.values()), **counts}, broken)
    # One variant that gets away is one too many.
    caught = {"variants": len(broken)} if len(broken) == len(chosen) else {}
    return Outcome({"variants": len(chosen), **counts}, caught)


def _all_orders(take: Take, dsn: str, anomaly: Anomaly) -> tuple[int, int]:
    total = bad = 0
    with psycopg.connect(dsn, autocommit=True) as db:
        if take.sabotaged:
            _change(db, anomaly)
        for order in orders(len(anomaly.one), len(anomaly.other)):
            total += 1
            steps = _steps(take, _prepare(db, anomaly), anomaly)
            one, other = run(dsn, *steps, order)
            if not anomaly.well(db, one, other):
                bad += 1
                if bad == 1:
                    take.say(f"{anomaly.name}: {order}: {one.answers} {other.answers}")
    return total, bad


def _change(db: psycopg.Connection[tuple[object, ...]], anomaly: Anomaly) -> None:
    """Leave out of a function what the sabotage names, if it names such a thing."""
    row = db.execute("select pg_get_functiondef('penstock_data.unclaim'::regproc::oid)").fetchone()
    assert row is not None
    text = str(row[0])
    for old, new in anomaly.sabotage:
        if "\n" in old:
            assert text.count(old) == 1, "unclaim() has changed: bring the sabotage along"
            db.execute(text.replace(old, new).encode())


def _prepare(db: psycopg.Connection[tuple[object, ...]], anomaly: Anomaly) -> int:
    """Fresh queues with what the sessions need; returns the id of the first message."""
    db.execute(
        "select penstock.delete_topic('t') where exists "
        "(select from penstock.list_topics() where name = 't')"
    )
    for queue in QUEUES:
        db.execute(f"select penstock.create_queue('{queue}', 't'{anomaly.queue})".encode())
    for statement in anomaly.prepare:
        db.execute(statement.encode())
    row = db.execute("select min(id) from penstock.log where topic = 't'").fetchone()
    return int(str(row[0])) if row and row[0] is not None else 0


def _steps(take: Take, message: int, anomaly: Anomaly) -> tuple[list[str], list[str]]:
    replaced = dict(anomaly.sabotage) if take.sabotaged else {}
    one = [replaced.get(step, step).replace("{id}", str(message)) for step in anomaly.one]
    return one, [step.replace("{id}", str(message)) for step in anomaly.other]


PART = Part(
    name="interleavings",
    promise="Whatever the order of their steps, two sessions never see an aborted message, lose an "
    "ack or an extension, claim twice, store a dedupe key twice, deliver beyond the cap of "
    "attempts, overtake in a key, see half a batch, or half a fan-out.",
    how="Every interleaving of two real sessions, for each of eight anomalies.",
    sabotage="published without a transaction, and claims not locked: three variants, all of which "
    "must fail",
    breaks=frozenset({"variants"}),
    play=play,
    enough={"interleavings": 150},
)
