"""Whatever one session holds open, redelivery on every other queue comes at the next claim."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.concurrency.sessions import (
    Background,
    ack,
    call,
    claim,
    create,
    drain,
    in_background,
    pid,
    publish,
    publish_many,
    value,
    values,
)
from tests.fixtures import clock
from tests.fixtures.maintenance import maintain

if TYPE_CHECKING:
    from collections.abc import Callable

    import psycopg

    from tests.fixtures.databases import Connect

    Session = psycopg.Connection[Any]

LOCKS = 72
"""Relation locks that a claim may take, whatever there was."""
STEP = "select affected, more, error from penstock.maintain_step(%s)"


def step(conn: Session, name: str) -> tuple[int, bool]:
    row = conn.execute(STEP, (name,)).fetchone()
    assert row is not None, "another session does it"
    assert row[2] is None, row
    return row[0], row[1]


# What an open claim holds ---------------------------------------------------------------------


def waiting_row(db: Session, session: Session) -> None:
    """A claim ends the wait of its consumer, whose time is over before it commits."""
    create(db, name="a")
    call(db, "start_waiting", "a", 5, "t")
    publish(db)
    assert len(claim(session, name="a")) == 1


def lane_row(db: Session, session: Session) -> None:
    """A claim of a fifo queue replaces the row of a key that was quiet for long."""
    create(db, "fifo", "a")
    publish(db, key="k")
    publish(db, key="another")
    ids = claim(db, name="a")
    ack(db, ids, name="a")
    claim(db, name="a")
    clock.advance(db, 1200)
    publish(db, key="k")
    assert len(claim(session, name="a")) == 1


def ended_queue(db: Session, session: Session) -> None:
    """A claim on an exclusive queue that ends before it commits."""
    call(db, "create_queue", "a", "q", exclusive=True, keep_alive_seconds=5)
    publish(db)
    assert len(claim(session, name="a")) == 1


def retention(db: Session, session: Session) -> None:
    """A claim on a queue whose other messages lapse."""
    create(db, name="a", retention="1 minute")
    publish_many(db, 2)
    assert len(claim(session, 1, name="a")) == 1


def expired_claim(db: Session, session: Session) -> None:
    """An ack of a claim that has expired by now."""
    create(db, name="a")
    publish(db)
    ids = claim(db, name="a", seconds=5)
    assert ack(session, ids, name="a") == ids


OPEN: list[Callable[[Session, Session], None]] = [
    waiting_row,
    lane_row,
    ended_queue,
    retention,
    expired_claim,
]


@pytest.mark.parametrize("open_claim", OPEN, ids=lambda each: each.__name__)
def test_an_open_claim_stops_neither_housekeeping_nor_redelivery_elsewhere(
    db: Session, connect: Connect, open_claim: Callable[[Session, Session], None]
) -> None:
    holder = connect(autocommit=False)
    open_claim(db, holder)
    create(db, name="b")
    message = publish(db)
    assert claim(db, name="b") == [message]
    clock.advance(db, 1300)
    done = Background(maintain, connect()).result()
    assert done["claims taken back"] == 1
    assert len(done) == 16
    assert done["lanes trimmed"] == (open_claim is lane_row)
    assert claim(db, name="b") == [message]
    holder.commit()
    maintain(db)
    checks = "select name from penstock.health() where not ok and name <> 'clock'"
    assert values(db, checks) == []


# What an open step of housekeeping holds ------------------------------------------------------

QUEUES = {"a": "standard", "b": "fifo", "c": "fair", "d": "filtered"}


@pytest.fixture
def expired(db: Session) -> int:
    """Every queue has a claim that ended, quiet lanes and messages over their retention."""
    for name, kind in QUEUES.items():
        create(db, kind, name, retention="1 hour")
    call(db, "create_queue", "ended", "q", exclusive=True, keep_alive_seconds=5)
    publish(db, key="quiet")
    for name in QUEUES:
        ack(db, claim(db, name=name), name=name)
        claim(db, name=name)
    later = value(db, "select penstock.clock() + interval '2 hours'")
    publish(db, key="lapses", dedupe_key="once", priority=1, deliver_after=later)
    clock.advance(db, 3000)
    message = publish(db, key="comes again", dedupe_key="twice")
    for name in QUEUES:
        while claim(db, 1, name=name, seconds=900) not in ([message], []):
            pass
    clock.advance(db, 1000)
    return message


def redelivered(db: Session, message: int) -> set[str]:
    """The queues that give out what expired, at the next claim."""
    return {name for name in QUEUES if message in claim(db, name=name, holder="next")}


STEPS = [
    "claims taken back",
    "exclusive queues deleted",
    "dedupe keys forgotten",
    "positions trimmed",
    "flags trimmed",
    "lanes trimmed",
    "registrations dropped",
    "stages swept",
    "messages moved",
    "messages lapsed",
    "kept messages dropped",
    "segments switched",
    "log full",
]


@pytest.mark.parametrize("name", STEPS)
def test_a_step_that_is_held_open_holds_up_one_queue_at_most(
    db: Session, connect: Connect, expired: int, name: str
) -> None:
    call(db, "configure", "lock_wait", "1 millisecond")
    holder = connect(autocommit=False)
    affected, more = step(holder, name)
    if name in ("claims taken back", "lanes trimmed", "messages lapsed"):
        assert affected >= 1
        assert more
    found = redelivered(db, expired)
    assert len(found) >= len(QUEUES) - (name in ("claims taken back", "messages lapsed"))
    holder.commit()
    assert found | redelivered(db, expired) == set(QUEUES)


def test_housekeeping_in_one_transaction_that_is_held_open_holds_up_no_queue(
    db: Session, connect: Connect, expired: int
) -> None:
    call(db, "configure", "lock_wait", "1 millisecond")
    holder = connect(autocommit=False)
    rows = holder.execute("select step, affected, error from penstock.maintain()").fetchall()
    assert {row[2] for row in rows} == {None}
    assert sum(row[1] for row in rows) > 0
    assert redelivered(db, expired) == set(QUEUES)
    holder.rollback()


def test_a_queue_with_nothing_over_its_time_is_not_locked(db: Session, connect: Connect) -> None:
    for name, kind in QUEUES.items():
        create(db, kind, name, retention="1 hour")
    call(db, "configure", "lock_wait", "1 millisecond")
    message = publish(db)
    holder = connect(autocommit=False)
    assert step(holder, "messages lapsed") == (0, False)
    assert redelivered(db, message) == set(QUEUES)


def test_a_session_that_holds_a_step_stops_no_other_step(db: Session, connect: Connect) -> None:
    create(db)
    holder = connect(autocommit=False)
    step(holder, "positions trimmed")
    done = maintain(db)
    assert len(done) == 15
    assert "positions trimmed" not in done


def test_stragglers_are_moved_in_pieces_that_no_claim_waits_for(
    db: Session, connect: Connect
) -> None:
    create(db, name="a")
    create(db, name="b")
    many = """
        select count(*) from penstock.publish_messages('q', array_fill('{}'::jsonb, array[10050]),
            deliver_after => array[penstock.clock() + interval '1 hour'])
    """
    assert value(db, many) == 10_050
    for name in ("a", "b"):
        while value(db, "select count(*) from penstock_data.scheduled") < 10_050 * (
            1 + (name == "b")
        ):
            assert claim(db, name=name) == []
            clock.advance(db, 2)
    call(db, "configure", "segment_bytes", "1")
    assert step(db, "segments switched")[0] >= 1
    message = publish(db)
    keeper = connect(autocommit=False)
    assert step(keeper, "segments emptied") == (0, True)
    assert claim(db, name="a")[-1] == message
    assert claim(db, name="b") == [message]
    keeper.commit()
    assert value(db, "select count(*) from penstock_data.messages_0") == 10_000
    assert step(db, "segments emptied") == (1, True)
    assert value(db, "select count(*) from penstock_data.messages_0") == 10_050


def test_each_segment_is_emptied_in_a_transaction_of_its_own(db: Session, connect: Connect) -> None:
    create(db)
    call(db, "configure", "segment_bytes", "1")
    for _ in range(3):
        publish(db)
        step(db, "segments switched")
    drain(db)
    waiting = "select count(*) from penstock_data.segments where closed_at is not null"
    before = value(db, waiting + " and kind = 'messages'")
    assert before >= 3
    assert step(db, "segments emptied") == (1, True)
    assert value(db, waiting + " and kind = 'messages'") == before - 1


def test_a_queue_that_comes_while_housekeeping_waits_keeps_what_it_claimed(
    db: Session, connect: Connect
) -> None:
    """It begins at the beginning, and claims from the segment that is about to be emptied."""
    create(db)
    message = publish(db)
    drain(db)
    call(db, "configure", "segment_bytes", "1")
    step(db, "segments switched")
    reader, keeper = connect(autocommit=False), connect()
    # The lock is waited for long enough to let the others come in between.
    keeper.execute("select set_config('lock_timeout', '10s', false)")
    value(reader, "select count(*) from penstock_data.messages")
    readers = value(db, "select penstock_data.all_readers()")
    truncate = """
        select penstock_data.truncate_segment(s, %s, penstock_data.clock())
        from penstock_data.segments s where s.kind = 'messages' and s.number = 1
    """
    waiting = in_background(db, keeper, lambda: value(keeper, truncate, readers))
    call(reader, "create_queue", "late", "q", start_at="beginning")
    assert claim(reader, name="late") == [message]
    reader.commit()
    assert waiting.result() is False
    assert ack(db, [message], name="late") == [message]


# How many segments there are ------------------------------------------------------------------


def relation_locks(session: Session, name: str) -> int:
    claim(session, name=name)
    held = """
        select count(*) from pg_locks
        where pid = pg_backend_pid() and locktype = 'relation' and relation >= 16384
    """
    count = int(value(session, held))
    session.rollback()
    return count


def most_locks(db: Session, connect: Connect) -> int:
    """Of a claim of any kind, by a session that has made its plans."""
    found = []
    for name in QUEUES:
        session = connect(autocommit=False)
        call(session, "get_next_visible_time", name)  # the first call looks at the log's origin
        session.commit()
        found += [relation_locks(session, name) for _ in range(8)][1:]
        publish(db, priority=1)
        clock.advance(db, 60)  # a claim looks at everything again
        found += [relation_locks(session, name) for _ in range(8)][1:]
        session.close()
    return max(found)


def test_claims_take_few_locks_after_a_backlog_of_100_segments_was_drained(
    db: Session, connect: Connect
) -> None:
    for name, kind in QUEUES.items():
        create(db, kind, name)
    last = {"messages": 100, "receipts": 30}
    for kind, number in last.items():
        db.execute(
            "select penstock_data.add_segment(%s) from generate_series(4, %s)", (kind, number)
        )
        # As if each had been written to, one after the other.
        db.execute(
            "update penstock_data.segments set opened_at = clock_timestamp(), unaware = '{}',"
            " closed_at = case when number < %s then clock_timestamp() end where kind = %s",
            (number, kind),
        )
    db.execute("update penstock_data.settings set message_segment = 100, receipt_segment = 30")
    db.execute(
        "insert into penstock_data.messages (topic_id, segment, payload, headers)"
        """ select t.id, n, '{}', '{"for": "me"}' from penstock_data.topics t,"""
        " generate_series(1, 100) n"
    )
    session = connect(autocommit=False)
    assert relation_locks(session, "a") > 200
    for name in QUEUES:
        while ids := claim(db, name=name):
            assert ack(db, ids, name=name) == ids
    clock.advance(db, 8 * 86_400)
    done = maintain(db)
    assert done["segments emptied"] >= 128
    maintain(db)
    counts = "select count(*) from penstock_data.segments group by kind order by kind"
    assert values(db, counts) == [5, 4]
    assert most_locks(db, connect) <= LOCKS
    message = publish(db)
    assert claim(db, name="a")[-1] == message


def test_claims_take_few_locks_while_a_long_backlog_waits(db: Session, connect: Connect) -> None:
    for name, kind in QUEUES.items():
        create(db, kind, name)
    create(db, name="quick")
    call(db, "configure", "segment_bytes", "1")
    published = []
    for _ in range(30):
        published += publish_many(db, 1)
        ack(db, claim(db, name="quick"), name="quick")
        maintain(db)
    count = "select count(*) from penstock_data.segments where kind = %s and opened_at is not null"
    assert value(db, count, "messages") == 4
    assert value(db, count, "receipts") == 3
    assert most_locks(db, connect) <= LOCKS
    assert sorted(claim(db, name="a"))[: len(published)] == published


def test_a_free_segment_stays_until_no_transaction_can_take_it_for_the_current_one(
    db: Session, connect: Connect
) -> None:
    create(db)
    # As an earlier version left it: more segments than are kept now, and the last is written to.
    db.execute("select penstock_data.add_segment('messages') from generate_series(4, 7)")
    db.execute(
        "update penstock_data.segments set unaware = '{}',"
        " opened_at = case when number in (1, 7) then clock_timestamp() end,"
        " closed_at = case when number = 1 then clock_timestamp() end where kind = 'messages'"
    )
    db.execute("update penstock_data.settings set message_segment = 7")
    late = connect(isolation="repeatable read", autocommit=False)
    late.execute("select from penstock_data.settings")
    publish(db)
    drain(db)
    call(db, "configure", "segment_bytes", "1")
    done = maintain(db)
    assert done["segments emptied"] >= 2
    assert done["segments dropped"] == 0
    message = publish(late)
    late.commit()
    assert maintain(db)["segments dropped"] == 2
    numbers = "select number from penstock_data.segments where kind = 'messages' order by number"
    assert values(db, numbers) == [1, 2, 3, 4, 7]
    assert drain(db) == [message]


def test_dropping_a_segment_waits_for_no_claim(db: Session, connect: Connect) -> None:
    create(db)
    db.execute("select penstock_data.add_segment('messages') from generate_series(1, 4)")
    holder = connect(autocommit=False)
    claim(holder)
    step(db, "segments dropped")
    assert step(db, "segments dropped") == (0, False)
    holder.commit()
    assert maintain(db)["segments dropped"] == 2


def test_a_requeue_waits_for_a_step_that_drops_messages_and_for_no_other(
    db: Session, connect: Connect
) -> None:
    create(db)
    dead = publish(db)
    claim(db)
    call(db, "bury_message", "q", dead, "t")
    keeper, other = connect(autocommit=False), connect()
    step(keeper, "positions trimmed")
    assert call(other, "requeue_dlq_messages", "q") == 1
    keeper.commit()
    claim(db)
    call(db, "bury_message", "q", dead, "t")
    step(keeper, "kept messages dropped")
    waiting = in_background(db, other, lambda: call(other, "requeue_dlq_messages", "q"))
    keeper.commit()
    assert waiting.result() == 1
    assert pid(keeper) != pid(other)
