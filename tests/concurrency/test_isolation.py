"""Old snapshots (REPEATABLE READ, SERIALIZABLE) give 40001, never a second delivery."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from tests.concurrency.sessions import (
    QUEUES,
    READER,
    ack,
    call,
    claim,
    create,
    drain,
    publish,
    publish_many,
    read,
    take,
    values,
)
from tests.fixtures import clock

if TYPE_CHECKING:
    from tests.fixtures.databases import Connect

    Session = psycopg.Connection[Any]

KINDS = [*QUEUES, READER]
LEVELS = ["repeatable read", "serializable"]


@pytest.fixture(params=LEVELS)
def caller(request: pytest.FixtureRequest, connect: Connect) -> Session:
    return connect(isolation=request.param, autocommit=False)


def look(conn: Session) -> None:
    """From here on this transaction sees nothing new."""
    conn.execute("select 1")


@pytest.mark.parametrize("kind", KINDS)
def test_an_old_position_is_a_serialization_failure(
    db: Session, caller: Session, kind: str
) -> None:
    create(db, kind)
    expected = publish_many(db, 4)
    look(caller)
    found = take(db, kind, 1)
    with pytest.raises(psycopg.errors.SerializationFailure):
        take(caller, kind)
    caller.rollback()
    found += drain(caller, kind)
    caller.commit()
    assert found == expected


@pytest.mark.parametrize("kind", KINDS)
def test_an_old_position_is_noticed_after_housekeeping(
    db: Session, caller: Session, kind: str
) -> None:
    create(db, kind)
    expected = publish_many(db, 6)
    look(caller)
    found = [*take(db, kind, 1), *take(db, kind, 1), *take(db, kind, 1)]
    db.execute("select penstock.maintain()")
    with pytest.raises(psycopg.errors.SerializationFailure):
        take(caller, kind)
    caller.rollback()
    found += drain(db, kind)
    assert found == expected


@pytest.mark.parametrize("kind", KINDS)
def test_a_position_that_nobody_moved_is_used(db: Session, caller: Session, kind: str) -> None:
    create(db, kind)
    expected = publish_many(db, 3)
    look(caller)
    late = publish_many(db, 3)
    found = drain(caller, kind, 1)
    assert found == expected
    late += publish_many(db, 3)
    caller.commit()
    assert drain(db, kind) == late


@pytest.mark.parametrize("kind", KINDS)
def test_a_rolled_back_claim_leaves_the_messages(db: Session, caller: Session, kind: str) -> None:
    create(db, kind)
    expected = publish_many(db, 3)
    take(caller, kind, 2)
    caller.rollback()
    assert drain(db, kind) == expected


@pytest.mark.parametrize("kind", QUEUES)
def test_two_old_snapshots_cannot_both_claim(db: Session, connect: Connect, kind: str) -> None:
    create(db, kind)
    expected = publish_many(db, 4)
    first = connect(isolation="repeatable read", autocommit=False)
    second = connect(isolation="serializable", autocommit=False)
    look(first)
    look(second)
    found = claim(first, 1)
    first.commit()
    with pytest.raises(psycopg.errors.SerializationFailure):
        claim(second, 4)
    second.rollback()
    ack(db, found)
    assert found + drain(db, kind) == expected


def test_a_claim_taken_back_meanwhile_cannot_be_acked(db: Session, caller: Session) -> None:
    create(db)
    message = publish(db)
    assert claim(db, holder="slow", seconds=10) == [message]
    look(caller)
    clock.advance(db, 11)
    assert claim(db, holder="quick") == [message]
    with pytest.raises(psycopg.errors.SerializationFailure):
        ack(caller, [message], holder="slow")
    caller.rollback()
    assert ack(db, [message], holder="quick") == [message]


@pytest.mark.parametrize("kind", QUEUES)
def test_a_message_that_moved_to_another_segment_is_not_lost_by_a_claim(
    db: Session, caller: Session, kind: str
) -> None:
    create(db, kind)
    message = publish(db)
    assert claim(db) == [message]
    call(db, "nack_message", "q", message, "t", 0)
    look(caller)
    empty_the_log(db)
    try:
        found = drain(caller, kind)
        caller.commit()
    except psycopg.errors.SerializationFailure:
        caller.rollback()
        found = []
    assert found + drain(db, kind) == [message]


@pytest.mark.parametrize(
    ("kind", "verb"),
    [("standard", "nack_message"), ("fifo", "release_message"), ("fair", "bury_message")],
)
def test_a_message_that_moved_to_another_segment_is_not_lost_by_giving_it_back(
    db: Session, caller: Session, kind: str, verb: str
) -> None:
    create(db, kind)
    message = publish(db)
    assert claim(db, seconds=30) == [message]
    look(caller)
    empty_the_log(db)
    try:
        call(caller, verb, "q", message, "t")
        caller.commit()
    except psycopg.errors.SerializationFailure:
        caller.rollback()
    db.execute("select penstock.requeue_dlq_messages('q')")
    clock.advance(db, 40)
    assert drain(db, kind) == [message]


def test_housekeeping_with_an_old_snapshot_drops_nothing_unread(
    db: Session, caller: Session, connect: Connect
) -> None:
    create(db)
    expected = publish_many(db, 3)
    assert drain(db) == expected
    writer = connect(autocommit=False)
    message = publish(writer)
    switch(db)
    look(caller)
    writer.commit()
    with pytest.raises(psycopg.DatabaseError, match="read committed") as error:
        caller.execute("select penstock.maintain()")
    caller.rollback()
    assert error.value.sqlstate == "PS005"
    assert drain(db) == [message]


def test_requeueing_with_an_old_snapshot_loses_nothing(db: Session, caller: Session) -> None:
    create(db)
    message = publish(db)
    claim(db)
    call(db, "bury_message", "q", message, "t")
    look(caller)
    empty_the_log(db)
    try:
        call(caller, "requeue_dlq_messages", "q")
        caller.commit()
    except psycopg.errors.SerializationFailure:
        caller.rollback()
        call(db, "requeue_dlq_messages", "q")
    assert claim(db) == [message]


def test_an_old_snapshot_reads_a_window_of_its_own(db: Session, caller: Session) -> None:
    create(db, READER)
    expected = publish_many(db, 3)
    look(caller)
    late = publish_many(db, 3)
    assert read(caller) == expected
    caller.commit()
    assert read(db) == late


def test_a_duplicate_published_after_the_snapshot_is_a_serialization_failure(
    db: Session, caller: Session
) -> None:
    create(db)
    look(caller)
    first = publish(db, dedupe_key="once")
    with pytest.raises(psycopg.errors.SerializationFailure):
        publish(caller, dedupe_key="once")
    caller.rollback()
    assert publish(caller, dedupe_key="once") == first
    caller.commit()
    assert drain(db) == [first]


def switch(db: Session) -> None:
    """Go on to the next segment, without emptying any."""
    call(db, "configure", "segment_bytes", "1")
    assert values(db, "select penstock_data.rotate('messages', penstock_data.clock())") == [True]


def empty_the_log(db: Session) -> None:
    """Everything has been read: switch the segment and empty it, moving what is still needed."""
    call(db, "configure", "segment_bytes", "1")
    emptied = "select affected from penstock.maintain() where step = 'segments emptied'"
    assert values(db, emptied) == [1]
