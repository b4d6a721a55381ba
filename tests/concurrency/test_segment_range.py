"""The segments that the fast path reads: all that may hold messages, and soon no more than that."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.concurrency.sessions import call, claim, create, publish, value
from tests.fixtures.maintenance import maintain

if TYPE_CHECKING:
    import psycopg

    from tests.fixtures.databases import Connect

    Session = psycopg.Connection[Any]


@pytest.fixture(autouse=True)
def _small_segments(db: Session) -> None:
    create(db)
    call(db, "configure", "segment_bytes", "1")


def segments(db: Session) -> tuple[int, int, int]:
    """The first and the last segment of the range, and the one that is written to."""
    statement = "select first_segment, last_segment, message_segment from penstock_data.settings"
    row = db.execute(statement).fetchone()
    assert row is not None
    return (row[0], row[1], row[2])


def claim_one(conn: Session) -> int | None:
    row = conn.execute("select message_id from penstock.consume_message('q', 't', 600)").fetchone()
    return None if row is None else int(row[0])


def test_a_new_installation_reads_one_segment(db: Session) -> None:
    assert segments(db) == (1, 1, 1)


def test_after_a_switch_claims_read_both_segments_and_then_the_new_one(db: Session) -> None:
    first = publish(db)
    db.execute("select penstock_data.rotate('messages', clock_timestamp())")
    assert segments(db) == (1, 2, 2)
    second = publish(db)
    assert [claim_one(db), claim_one(db), claim_one(db)] == [first, second, None]
    call(db, "configure", "segment_bytes", "1000000")
    # Emptied, noted as free, found idle.
    for _ in range(4):
        maintain(db)
    assert segments(db) == (2, 2, 2)
    third = publish(db)
    assert claim_one(db) == third


def test_a_transaction_with_an_old_snapshot_publishes_into_a_segment_that_is_free(
    db: Session, connect: Connect
) -> None:
    """Its message must not lie outside of what claims read."""
    late = connect(isolation="repeatable read", autocommit=False)
    late.execute("select from penstock_data.topics")
    first = publish(db)
    assert [claim_one(db), claim_one(db)] == [first, None]
    maintain(db)
    assert segments(db)[2] == 2
    call(db, "configure", "segment_bytes", "1000000")
    for _ in range(4):
        maintain(db)
    free = "select opened_at is null from penstock_data.segments where number = 1 and kind = %s"
    assert value(db, free, "messages")
    assert segments(db)[0] == 1
    in_between = publish(db)
    message = publish(late)
    late.commit()
    after = publish(db)
    # One by one: a claim that finds nothing in the range would look at all segments.
    assert sorted([claim_one(db) or 0 for _ in range(3)]) == sorted([in_between, message, after])
    assert claim_one(db) is None
    for _ in range(4):
        maintain(db)
    assert segments(db) == (2, 2, 2)


def test_a_segment_that_is_written_to_again_is_in_the_range(db: Session) -> None:
    for _ in range(12):
        message = publish(db)
        assert claim(db, 10) == [message]
        maintain(db)
        first, last, current = segments(db)
        assert first <= current <= last


def test_the_range_is_not_narrowed_behind_a_switch(db: Session, connect: Connect) -> None:
    """A session that narrows the range waits for a switch that is under way."""
    switch = connect(autocommit=False)
    publish(db)
    switch.execute("select penstock_data.rotate('messages', clock_timestamp())")
    db.execute("set lock_timeout = '100ms'")
    with pytest.raises(Exception, match="lock timeout"):
        db.execute("select penstock_data.retire_free_segments(clock_timestamp())")
    switch.commit()
    db.execute("select penstock_data.retire_free_segments(clock_timestamp())")
    assert segments(db) == (1, 2, 2)
