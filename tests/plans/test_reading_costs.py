"""A batch of a long log costs what is in it: streams, readers and ordered queues walk by ids."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.plans.costs import assert_no_growth, buffers, claim_cost, fill

if TYPE_CHECKING:
    import psycopg

    Session = psycopg.Connection[Any]

READS = [
    "select * from penstock.next_offset(array[1], penstock.log_offset(true))",
    "select * from penstock.next_offset(array[1], penstock.log_offset(true), max_rows => 100)",
    "select * from penstock.next_offset(array[1], penstock.log_offset(true), max_bytes => 1000)",
    "select * from penstock.next_offset(array[1], penstock.log_offset(true), min_rows => 100)",
    "select * from penstock.read_window('r', 100)",
]


def costs(db: Session) -> dict[str, int]:
    for read in READS:
        buffers(db, read)  # plans are made
    return {read: buffers(db, read) for read in READS}


@pytest.mark.parametrize("analysed", [False, True])
def test_a_longer_log_costs_a_batch_nothing(db: Session, *, analysed: bool) -> None:
    db.execute("select penstock.create_queue('q')")
    db.execute("select penstock.create_reader('r', 'q', 'beginning')")
    fill(db, 20_000)
    few = costs(db)
    for _ in range(4):
        fill(db, 100_000)
    if analysed:
        db.execute("analyze")
    for read, cost in costs(db).items():
        assert_no_growth(few[read], cost)


@pytest.mark.parametrize("ordering", ["fifo", "fair"])
def test_a_longer_log_costs_an_ordered_queue_nothing(db: Session, ordering: str) -> None:
    """More than one portion is claimed, so that the log is read again and again."""
    db.execute("select penstock.create_queue('q', ordering => %s)", (ordering,))
    fill(db, 10_000, key="n::text")
    few = claim_cost(db, 1000, times=5)
    for _ in range(2):
        fill(db, 100_000, key="n::text")
    db.execute("analyze")
    assert_no_growth(few, claim_cost(db, 1000, times=5))
