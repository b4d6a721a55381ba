"""Looking costs the same whatever the backlog: dashboards must not weigh on a server in trouble."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.plans.costs import buffers, fill, fill_flagged, only_index_scans

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
    "select * from penstock.browse_messages('q')",
    "select penstock.get_next_visible_time('q')",
    "select * from penstock.queue_history('q')",
    "select * from penstock.inspect_message('q', 1)",
]


def drain(db: Session, count: int) -> None:
    """Publish messages and have them done."""
    fill(db, count)
    while True:
        claimed = db.execute(
            "select array_agg(message_id)"
            " from penstock.consume_messages_batch('q', 'plans', 600, 10000)"
        ).fetchone()
        if claimed is None or claimed[0] is None:
            return
        db.execute("select penstock.ack_messages('q', %s, 'plans')", claimed)


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


@pytest.mark.parametrize("keys", [1, 200])
def test_three_times_the_backlog_of_a_fifo_queue_costs_a_look_nothing(
    db: Session, keys: int
) -> None:
    """Neither what the queue has read and its claimed keys block, nor what it has not read."""
    db.execute("select penstock.create_queue('q', ordering => 'fifo')")
    # Browsing walks over what was read and is still kept: docs/operate/health.md.
    looks = [look for look in LOOKS if "browse_messages" not in look]
    looks += ["select * from penstock.find_messages('q', 'blocked')"]
    if keys == 1:  # 10,000 messages of the key are walked over at most
        looks += ["select penstock.message_state('q', %s)"]

    def costs() -> list[int]:
        (last,) = db.execute("select nextval('penstock_data.message_id') - 1").fetchone() or (0,)
        found = []
        for look in looks:
            asked = (last,) if "%s" in look else ()
            buffers(db, look, *asked)  # plans are made, hints are set
            found.append(buffers(db, look, *asked))
            with only_index_scans(db):
                db.execute(look.encode(), asked)
        return found

    def publish(count: int) -> None:
        fill(db, count, key=f"'k' || n % {keys}")

    def read() -> None:
        # As long as all keys are claimed, a claim reads on: 50,000 messages at most.
        db.execute("select penstock.consume_messages_batch('q', 'plans', 600, %s)", (keys,))

    publish(20_000)
    read()
    read()
    publish(20_000)
    before = costs()
    publish(60_000)
    read()
    for look, less, more in zip(looks, before, costs(), strict=True):
        assert more <= less * 1.3 + 50, look


def test_a_log_that_was_read_costs_a_look_nothing(db: Session) -> None:
    """As long as it is kept: a consumer asks when to wake, and people look."""
    looks = [
        "select penstock.get_next_visible_time('q')",
        "select penstock.message_state('q', %s)",
        "select * from penstock.browse_messages('q')",
    ]
    db.execute("select penstock.create_queue('q', start_at => 'beginning')")

    def costs() -> list[int]:
        (last,) = db.execute("select nextval('penstock_data.message_id')").fetchone() or (0,)
        found = []
        for look in looks:
            asked = (last,) if "%s" in look else ()
            buffers(db, look, *asked)  # plans are made, hints are set
            found.append(buffers(db, look, *asked))
        return found

    drain(db, 1_000)
    before = costs()
    drain(db, 20_000)
    for look, less, more in zip(looks, before, costs(), strict=True):
        assert more <= less * 1.3 + 50, look


def test_what_is_scheduled_beyond_the_page_costs_browsing_nothing(db: Session) -> None:
    browse = "select * from penstock.browse_messages('q')"
    db.execute("select penstock.create_queue('q')")

    def cost() -> int:
        tomorrow = "now() + interval '1 day'"
        fill_flagged(db, 5_000, key="null::text", deliver_after=tomorrow)
        db.execute("select penstock.consume_messages_batch('q', 'plans', 600, 10)")
        buffers(db, browse)
        return buffers(db, browse)

    before = cost()
    assert cost() <= before * 1.3 + 50


def test_looking_goes_along_indexes(deep: Session) -> None:
    for look in LOOKS:
        with only_index_scans(deep):
            deep.execute(look.encode())


def test_nothing_is_compiled_for_a_look(db: Session) -> None:
    """A sort that can't be avoided counts as endless where sorts are off, and so worth compiling.

    That took up to half a second on servers that compile, for looks of some milliseconds.
    """
    found = db.execute(
        """
        select p.oid::regprocedure::text from pg_proc p
        join pg_namespace n on n.oid = p.pronamespace
        where n.nspname like 'penstock%' and 'enable_sort=off' = any (p.proconfig)
          and not 'jit=off' = any (p.proconfig)
        """
    )
    assert found.fetchall() == []
