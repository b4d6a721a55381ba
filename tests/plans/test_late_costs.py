"""Transactions that commit late are found by their xids, whatever was published meanwhile.

The worst case for the planner: its plans are made while the log is empty and nobody analyses it.
"""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING, Any

import pytest
from psycopg.types.json import Jsonb

from tests.plans.costs import KINDS, assert_no_growth, buffers, create, fill

if TYPE_CHECKING:
    import psycopg

    from tests.fixtures.databases import Connect

    Session = psycopg.Connection[Any]

CLAIM = "select * from penstock.consume_messages_batch('q', 'plans', 600, %s)"
READ = "select * from penstock.read_window('r', %s)"
LOOK = "select * from penstock.reader_overview()"
STREAM = "select * from penstock.next_offset(array[1], %s)"


def late(db: Session, connect: Connect) -> dict[str, int]:
    """What it costs to find the message of a writer that commits when all others were read."""
    writer = connect(autocommit=False)
    writer.execute("select penstock.publish_message('q', '{}')")
    fill(db, 1, key="n::text")
    drain(db)
    row = db.execute("select penstock.log_offset(false)").fetchone()
    assert row is not None
    writer.commit()
    fill(db, 1)
    asked = {LOOK: (), READ: (10,), CLAIM: (10,), STREAM: (Jsonb(row[0]),)}
    return {each: buffers(db, each, *given) for each, given in asked.items()}


def usual(db: Session, connect: Connect) -> dict[str, float]:
    """Medians, because now and then a claim looks at everything once more."""
    costs = [late(db, connect) for _ in range(7)]
    return {each: median(cost[each] for cost in costs) for each in costs[0]}


def drain(db: Session) -> None:
    while db.execute(CLAIM, (10_000,)).fetchall():
        pass
    while read := db.execute(READ, (10_000,)).fetchall():
        db.execute("select penstock.commit_window('r', %s)", (read[-1][0],))


@pytest.mark.parametrize("kind", KINDS)
def test_a_late_writer_costs_nothing(db: Session, connect: Connect, kind: str) -> None:
    create(db, kind)
    db.execute("select penstock.create_reader('r', 'q')")
    few = usual(db, connect)
    fill(db, 40_000, key="n::text")
    drain(db)
    for what, cost in usual(db, connect).items():
        assert_no_growth(few[what], cost, 1.4)
