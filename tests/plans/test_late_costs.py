"""Transactions that commit late are found by their xids, whatever was published meanwhile.

The worst case for the planner: its plans are made while the log is empty and nobody analyses it.
"""

from __future__ import annotations

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


def late(db: Session, connect: Connect, count: int) -> dict[str, int]:
    """What it costs to find the message of a writer before whose commit so many were published."""
    writer = connect(autocommit=False)
    writer.execute("select penstock.publish_message('q', '{}')")
    fill(db, count, key="n::text")
    drain(db)
    row = db.execute("select penstock.log_offset(false)").fetchone()
    assert row is not None
    writer.commit()
    fill(db, 1)
    asked = {LOOK: (), READ: (10,), CLAIM: (10,), STREAM: (Jsonb(row[0]),)}
    return {each: buffers(db, each, *given) for each, given in asked.items()}


def drain(db: Session) -> None:
    while db.execute(CLAIM, (10_000,)).fetchall():
        pass
    while read := db.execute(READ, (10_000,)).fetchall():
        db.execute("select penstock.commit_window('r', %s)", (read[-1][0],))


@pytest.mark.parametrize("kind", KINDS)
def test_a_late_writer_costs_nothing(db: Session, connect: Connect, kind: str) -> None:
    create(db, kind)
    db.execute("select penstock.create_reader('r', 'q')")
    for _ in range(7):
        late(db, connect, 0)
    few = late(db, connect, 1000)
    late(db, connect, 20_000)
    for what, cost in late(db, connect, 20_000).items():
        assert_no_growth(few[what], cost, 1.4)
