"""Looking costs the same whatever the backlog: dashboards must not weigh on a server in trouble."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.plans.costs import buffers, fill, only_index_scans

if TYPE_CHECKING:
    import psycopg

    Session = psycopg.Connection[Any]

LOOKS = [
    "select * from penstock.queue_overview()",
    "select * from penstock.reader_overview()",
    "select * from penstock.list_consumers()",
    "select * from penstock.activity(pg_current_snapshot())",
    "select * from penstock.find_messages('q', 'waiting')",
    "select * from penstock.find_messages('q', 'waiting', key => 'nobody')",
    "select * from penstock.find_messages('q', 'scheduled')",
    "select * from penstock.queue_history('q')",
    "select * from penstock.inspect_message('q', 1)",
]


@pytest.fixture
def deep(db: Session) -> Session:
    """More waits than is ever counted, in a queue with a reader beside it."""
    db.execute("select penstock.create_queue('q', start_at => 'beginning')")
    db.execute("select penstock.create_reader('r', 'q', 'beginning')")
    db.execute("select penstock.create_queue('fair', 'q', ordering => 'fair')")
    fill(db, 30_000)
    return db


def test_three_times_the_backlog_costs_a_look_nothing(deep: Session) -> None:
    def costs() -> list[int]:
        for look in LOOKS:
            buffers(deep, look)  # plans are made, hints are set
        return [buffers(deep, look) for look in LOOKS]

    before = costs()
    fill(deep, 60_000)
    for look, less, more in zip(LOOKS, before, costs(), strict=True):
        # Where few blocks are touched, a new page or a higher tree weighs more.
        assert more <= less * 1.3 + 50, look


def test_looking_goes_along_indexes(deep: Session) -> None:
    for look in LOOKS:
        with only_index_scans(deep):
            deep.execute(look.encode())
