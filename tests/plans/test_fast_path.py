"""Which claims take the fast path: counted by the calls of claim_with_care, which does the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.concurrency.sessions import Background, claim, create, pid, publish, until, value

if TYPE_CHECKING:
    from collections.abc import Callable

    import psycopg

    from tests.fixtures.databases import Connect

    Session = psycopg.Connection[Any]

CALLS = """
    select coalesce(sum(f.calls), 0)::int from pg_stat_user_functions f
    where f.funcname = 'claim_with_care'
"""
MESSAGES = 40
# A claim that had to wait: it leaves a slice, and the session looks for slices from now on.
SHARE = "select from penstock_data.claim_and_share('q', 't', 600, 1, null, true)"


@pytest.fixture
def careful(db: Session) -> Callable[[], int]:
    """How often claims of any session needed care so far."""
    db.execute(f"alter database {db.info.dbname} set track_functions = 'all'".encode())

    def count() -> int:
        db.execute("select pg_stat_clear_snapshot()")
        return int(value(db, CALLS))

    return count


def claim_one(conn: Session) -> int:
    row = conn.execute("select message_id from penstock.consume_message('q', 't', 600)").fetchone()
    assert row is not None
    return int(row[0])


def begun(db: Session, connect: Connect) -> Session:
    """A consumer of a queue of which it has claimed the first message."""
    create(db)
    consumer = connect()
    publish(db)
    claim(consumer)
    return consumer


@pytest.mark.parametrize("size", [1, 10])
def test_a_queue_that_is_nearly_empty(
    db: Session, connect: Connect, careful: Callable[[], int], size: int
) -> None:
    """One message under way: the window moves on with each claim."""
    consumer = begun(db, connect)
    before = flushed(consumer, careful)
    for _ in range(MESSAGES):
        message = publish(db)
        assert (claim_one(consumer) if size == 1 else claim(consumer, size)[0]) == message
    # Every second or so a claim looks at everything.
    assert flushed(consumer, careful) - before <= MESSAGES / 2


@pytest.mark.parametrize("size", [1, 10])
def test_a_consumer_that_was_notified(
    db: Session, connect: Connect, careful: Callable[[], int], size: int
) -> None:
    """Its registration ends with the claim, so the next publisher does not notify it."""
    consumer = begun(db, connect)
    before = flushed(consumer, careful)
    for _ in range(MESSAGES):
        consumer.execute("select penstock.start_waiting('q', 60, 't')")
        message = publish(db)
        assert (claim_one(consumer) if size == 1 else claim(consumer, size)[0]) == message
        assert value(db, "select count(*) from penstock_data.waiting") == 0
    assert flushed(consumer, careful) - before <= MESSAGES / 2


@pytest.mark.parametrize("size", [1, 10])
def test_the_first_claim_of_a_session(
    db: Session, connect: Connect, careful: Callable[[], int], size: int
) -> None:
    create(db)
    publish(db)
    claim(db)
    message = publish(db)
    session = connect()
    before = flushed(db, careful)
    assert (claim_one(session) if size == 1 else claim(session, size)[0]) == message
    assert flushed(session, careful) == before


def test_a_claim_after_an_ack_in_the_same_transaction(
    db: Session, connect: Connect, careful: Callable[[], int]
) -> None:
    create(db)
    consumer = connect()
    done = None
    call = "select message_id from penstock.ack_and_consume('q', 't', %s)"
    publish(db)
    done = value(consumer, call, done)
    before = flushed(consumer, careful)
    for _ in range(MESSAGES):
        publish(db)
        done = value(consumer, call, done)
        assert done is not None
    assert flushed(consumer, careful) - before <= MESSAGES / 2


def test_a_claim_that_had_to_wait_for_its_turn(
    db: Session, connect: Connect, careful: Callable[[], int]
) -> None:
    db.execute("select penstock.configure('lock_wait', '60 seconds')")
    create(db)
    consumer, holder = connect(), connect(autocommit=False)
    publish(db)
    claim(consumer)
    messages = [publish(db), publish(db)]
    before = flushed(consumer, careful)
    assert claim_one(holder) == messages[0]
    waiting = Background(claim_one, consumer)
    until(lambda: value(db, "select %s = any (pg_blocking_pids(%s))", pid(holder), pid(consumer)))
    holder.commit()
    assert waiting.result() == messages[1]
    assert flushed(consumer, careful) == before


def flushed(conn: Session, count: Callable[[], int]) -> int:
    conn.execute("select pg_stat_force_next_flush()")
    return count()


def test_the_log_is_kept_from_the_message_read_last(db: Session, connect: Connect) -> None:
    """A window that is never used up moves its beginning on, so that segments can be emptied."""
    create(db)
    consumer = connect()
    first = publish(db)
    assert claim_one(consumer) == first
    for _ in range(5):
        publish(db)
        last = claim_one(consumer)
    held = """
        select pg_snapshot_xmin(p.window_from) = m.xid
        from penstock_data.queues q, penstock_data.position_of(q.id) p, penstock_data.messages m
        where m.id = %s
    """
    assert value(db, held, last - 1)


def test_a_consumer_whose_companions_have_gone(
    db: Session, connect: Connect, careful: Callable[[], int]
) -> None:
    """It uses up the slice, and then claims as if there had never been one."""
    create(db)
    consumer = connect()
    expected = [publish(db) for _ in range(MESSAGES)]
    with consumer.transaction():
        consumer.execute(SHARE)
    claimed = [claim_one(consumer) for _ in range(10)]
    before = flushed(consumer, careful)
    claimed += [claim_one(consumer) for _ in range(MESSAGES - 11)]
    assert claimed == expected[1:]
    assert flushed(consumer, careful) - before <= MESSAGES / 4
