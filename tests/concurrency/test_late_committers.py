"""A writer commits after the log was read past it: nothing lost, nothing twice."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest

from tests.concurrency.sessions import (
    QUEUES,
    READER,
    claim,
    create,
    drain,
    publish,
    publish_many,
    take,
    value,
)
from tests.fixtures import clock

if TYPE_CHECKING:
    import psycopg

    from tests.fixtures.databases import Connect

    Session = psycopg.Connection[Any]

KINDS = [*QUEUES, READER]
MESSAGES = {
    "plain": {},
    "urgent": {"priority": 5},
    "unimportant": {"priority": -5},
    "delayed": {"deliver_after": "2000-01-01"},  # replaced by a time to come when published
}


def write(conn: Session, sort: str) -> int:
    if sort == "delayed":
        soon = value(conn, "select penstock_data.clock() + interval '50 seconds'")
        return publish(conn, deliver_after=soon)
    return publish(conn, **MESSAGES[sort])


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest, db: Session) -> str:
    create(db, request.param)
    return str(request.param)


@pytest.mark.parametrize("sort", MESSAGES)
def test_a_late_committer_is_read_once(db: Session, connect: Connect, kind: str, sort: str) -> None:
    late = connect(autocommit=False)
    expected = [write(late, sort)]
    found = []
    for _ in range(3):
        expected.append(write(db, "plain"))
        found += drain(db, kind)
    expected += [write(late, sort), write(db, sort)]
    found += drain(db, kind)
    late.commit()
    clock.advance(db, 60)
    found += drain(db, kind)
    assert sorted(found) == sorted(expected)


@pytest.mark.parametrize("sort", MESSAGES)
def test_a_writer_behind_the_newest_snapshot_is_read_once(
    db: Session, connect: Connect, kind: str, sort: str
) -> None:
    """Nobody who began after it has finished, so no snapshot knows of it yet."""
    late, later = connect(autocommit=False), connect(autocommit=False)
    expected = [write(db, "plain"), write(late, sort), write(later, sort)]
    found = drain(db, kind)
    later.commit()
    found += drain(db, kind)
    late.commit()
    clock.advance(db, 60)
    expected.append(write(db, "plain"))
    found += drain(db, kind)
    assert sorted(found) == sorted(expected)


@pytest.mark.parametrize("sort", ["plain", "urgent"])
def test_a_commit_in_the_middle_of_a_window_is_read_once(
    db: Session, connect: Connect, kind: str, sort: str
) -> None:
    early, late = connect(autocommit=False), connect(autocommit=False)
    expected = [write(early, sort), write(late, sort), *publish_many(db, 5), write(late, sort)]
    found = take(db, kind, 2)
    early.commit()
    found += take(db, kind, 2)
    expected += publish_many(db, 3)
    found += take(db, kind, 2)
    late.commit()
    expected += publish_many(db, 3)
    for _ in range(len(expected)):
        found += take(db, kind, 1)
    assert sorted(found) == sorted(expected)


@pytest.mark.parametrize("sort", ["plain", "urgent"])
def test_writers_that_commit_in_reverse_order_are_all_read(
    db: Session, connect: Connect, kind: str, sort: str
) -> None:
    writers = [connect(autocommit=False) for _ in range(4)]
    expected = [write(writer, sort) for writer in writers for _ in range(2)]
    found = drain(db, kind)
    for writer in reversed(writers):
        writer.commit()
        expected.append(write(db, "plain"))
        found += drain(db, kind, 1)
    assert sorted(found) == sorted(expected)


@pytest.mark.parametrize("sort", ["plain", "urgent"])
def test_a_rollback_leaves_nothing_and_takes_nothing_with_it(
    db: Session, connect: Connect, kind: str, sort: str
) -> None:
    writer, partly = connect(autocommit=False), connect(autocommit=False)
    write(writer, sort)
    expected = [write(partly, sort)]
    partly.execute("savepoint here")
    write(partly, sort)
    expected.append(write(db, "plain"))
    found = drain(db, kind)
    partly.execute("rollback to savepoint here")
    partly.execute("savepoint again")
    expected.append(write(partly, sort))
    partly.execute("release savepoint again")
    writer.rollback()
    expected.append(write(db, "plain"))
    found += drain(db, kind)
    partly.commit()
    found += drain(db, kind)
    assert sorted(found) == sorted(expected)


def test_a_writer_that_stays_open_does_not_stop_the_queue(
    db: Session, connect: Connect, kind: str
) -> None:
    writer = connect(autocommit=False)
    expected = [write(writer, "plain"), write(writer, "urgent")]
    found = []
    for _ in range(30):
        ids = publish_many(db, 10)
        expected += ids
        now = take(db, kind, 4) + drain(db, kind)
        assert sorted(now) == ids
        found += now
    writer.commit()
    found += drain(db, kind)
    assert sorted(found) == sorted(expected)


def test_what_the_claiming_transaction_published_itself_is_not_passed_over(
    db: Session, connect: Connect, kind: str
) -> None:
    both = connect(autocommit=False)
    before = publish(db, key="a")
    own = publish(both, key="b")
    found = take(both, kind)
    both.commit()
    assert found == [before]
    assert drain(db, kind) == [own]
    # And the same with a younger transaction that has finished already.
    own = publish(both, key="c")
    other = publish(db, key="d")
    found = take(both, kind)
    own_too = publish(both, key="e")
    both.commit()
    assert found == [other]
    assert drain(db, kind) == [own, own_too]


@pytest.mark.parametrize("kind", ["fifo", "fair", READER])
def test_an_early_transaction_that_inserts_late_keeps_its_place(
    db: Session, connect: Connect, kind: str
) -> None:
    """Its xid is lower, its message is younger: the order is that of the inserts."""
    create(db, kind)
    early = connect(autocommit=False)
    early.execute("select pg_current_xact_id()")
    options = {} if kind == READER else {"key": "k"}
    first = publish(db, **options)
    second = publish(early, **options)
    early.commit()
    third = publish(db, **options)
    assert drain(db, kind) == [first, second, third]


@pytest.mark.parametrize("kind", ["fifo", READER])
def test_a_chain_of_producers_is_delivered_in_the_order_of_their_inserts(
    db: Session, connect: Connect, kind: str
) -> None:
    create(db, kind)
    producers = [connect(autocommit=False) for _ in range(6)]
    for producer in reversed(producers):
        producer.execute("select pg_current_xact_id()")
    options = {} if kind == READER else {"key": "k"}
    found, expected = [], []
    for number, producer in enumerate(producers):
        expected.append(publish(producer, **options))
        producer.commit()
        if number % 2:
            found += take(db, kind, 1)
    found += drain(db, kind)
    assert found == expected
    assert all(a < b for a, b in pairwise(found))


def test_a_queue_created_while_writers_are_open_gets_what_commits_after_it(
    db: Session, connect: Connect
) -> None:
    call_topic(db)
    writer = connect(autocommit=False)
    expected = [publish(writer)]
    for name in QUEUES:
        create(db, name, name)
    expected.append(publish(writer))
    writer.commit()
    expected.append(publish(db))
    for name in QUEUES:
        got = claim(db, name=name)
        if name == "fifo":  # one of a lane at a time
            db.execute("select penstock.ack_messages('fifo', %s, 't')", (got,))
            while more := claim(db, name=name):
                got += more
                db.execute("select penstock.ack_messages('fifo', %s, 't')", (more,))
        assert sorted(got) == expected, name


def call_topic(db: Session) -> None:
    db.execute("select penstock.create_topic('q')")


@pytest.mark.parametrize("sort", ["plain", "urgent"])
def test_a_queue_that_starts_at_a_time_reads_a_late_committer_once(
    db: Session, connect: Connect, sort: str
) -> None:
    create(db, "since")
    late = connect(autocommit=False)
    expected = [write(db, "plain"), write(late, sort)]
    found = drain(db)
    late.commit()
    expected.append(write(db, "plain"))
    assert sorted(found + drain(db)) == expected


@pytest.mark.parametrize("kind", KINDS)
def test_ids_beyond_two_to_the_31_travel_like_others(
    db: Session, connect: Connect, kind: str
) -> None:
    create(db, kind)
    db.execute("select setval('penstock_data.message_id', 2147483646)")
    late = connect(autocommit=False)
    expected = [publish(db), publish(late), publish(db)]
    found = drain(db, kind)
    late.commit()
    found += drain(db, kind)
    assert sorted(found) == expected
    assert expected[-1] > 2**31
