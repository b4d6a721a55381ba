"""fifo queues under several consumers: each key in order, no lane lost or doubled."""

from __future__ import annotations

import threading
from collections import defaultdict
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest

from tests.concurrency.sessions import (
    Background,
    ack,
    call,
    claim,
    create,
    drain,
    publish,
    until,
)
from tests.fixtures import clock
from tests.fixtures.maintenance import maintain

if TYPE_CHECKING:
    import psycopg

    from tests.fixtures.databases import Connect

    Session = psycopg.Connection[Any]


@pytest.fixture(autouse=True)
def _queue(db: Session) -> None:
    create(db, "fifo")


def test_an_ack_that_commits_late_frees_its_lane_once(db: Session, connect: Connect) -> None:
    first, second, third = (publish(db, key="k") for _ in range(3))
    assert claim(db) == [first]
    late = connect(autocommit=False)
    assert ack(late, [first]) == [first]
    publish(db, key="other")
    for _ in range(3):
        for message in claim(db, holder="u"):
            assert message not in (second, third)
            ack(db, [message], holder="u")
    late.commit()
    assert claim(db) == [second]
    assert claim(db, holder="u") == []
    ack(db, [second])
    assert claim(db) == [third]


def test_an_ack_by_the_newest_transaction_frees_its_lane(db: Session, connect: Connect) -> None:
    """Claims that run before it commits have no snapshot that knows of it."""
    first, second = publish(db, key="k"), publish(db, key="k")
    other = [publish(db, key=f"other-{n}") for n in range(3)]
    assert claim(db, 1) == [first]
    late = connect(autocommit=False)
    ack(late, [first])
    assert claim(db, 1, holder="u") == other[:1]
    assert claim(db, 1, holder="u") == other[1:2]
    late.commit()
    assert claim(db, holder="u") == [other[2], second]


def test_acks_of_many_lanes_that_commit_in_any_order_free_them_all(
    db: Session, connect: Connect
) -> None:
    keys = [f"key-{n}" for n in range(6)]
    rounds = [[publish(db, key=key) for key in keys] for _ in range(3)]
    for expected in rounds:
        assert sorted(message for _ in keys for message in claim(db, 1)) == expected
        sessions = [connect(autocommit=False) for _ in keys]
        for session, message in zip(sessions, expected, strict=True):
            assert ack(session, [message]) == [message]
        assert claim(db, holder="u") == []
        for session in sessions[1::2] + sessions[::2]:
            session.commit()
            # Takes what is free and gives it back, so that lanes change in the middle of it.
            for message in claim(db, holder="u"):
                assert call(db, "release_message", "q", message, "u")
    assert drain(db, "fifo") == []


def test_an_ack_rolled_back_keeps_its_lane_locked(db: Session, connect: Connect) -> None:
    first, second = publish(db, key="k"), publish(db, key="k")
    assert claim(db, seconds=10) == [first]
    late = connect(autocommit=False)
    ack(late, [first])
    assert claim(db, holder="u") == []
    late.rollback()
    assert claim(db, holder="u") == []
    clock.advance(db, 11)
    assert claim(db, holder="u") == [first]
    ack(db, [first], holder="u")
    assert claim(db, holder="u") == [second]


def test_a_message_that_dies_late_frees_its_lane_once(db: Session, connect: Connect) -> None:
    first, second = publish(db, key="k"), publish(db, key="k")
    assert claim(db) == [first]
    late = connect(autocommit=False)
    assert call(late, "bury_message", "q", first, "t")
    assert claim(db, holder="u") == []
    late.commit()
    assert claim(db, holder="u") == [second]
    assert call(db, "requeue_dlq_messages", "q") == 1
    assert claim(db, holder="v") == []
    ack(db, [second], holder="u")
    assert claim(db, holder="v") == [first]


def test_a_nack_that_commits_late_keeps_the_order(db: Session, connect: Connect) -> None:
    first, second = publish(db, key="k"), publish(db, key="k")
    assert claim(db) == [first]
    late = connect(autocommit=False)
    assert call(late, "nack_message", "q", first, "t", 0)
    assert claim(db, holder="u") == []
    late.commit()
    assert claim(db, holder="u") == [first]
    assert claim(db, holder="v") == []
    ack(db, [first], holder="u")
    assert claim(db, holder="u") == [second]


def test_housekeeping_does_not_forget_a_lane_that_an_open_ack_will_free(
    db: Session, connect: Connect
) -> None:
    first, second = publish(db, key="k"), publish(db, key="k")
    assert claim(db, seconds=3600) == [first]
    late = connect(autocommit=False)
    ack(late, [first])
    clock.advance(db, 1200)
    maintain(db)
    db.execute("select penstock.cleanup_queue_messages('q')")
    late.commit()
    db.execute("select penstock.cleanup_queue_messages('q')")
    assert claim(db) == [second]


def test_four_consumers_deliver_each_key_in_order(db: Session, connect: Connect) -> None:
    expected: dict[str, list[int]] = defaultdict(list)
    for _ in range(12):
        for key in ("a", "b", "c", "d", "e"):
            expected[key].append(publish(db, key=key))
    left = sum(map(len, expected.values()))
    lock, events = threading.Lock(), []

    def work(session: Session, holder: str) -> int:
        done = 0
        statement = """
            select message_id, key from penstock.consume_messages_batch('q', %s, 60, 3)
        """
        while len(events) < 2 * left:
            for message, key in session.execute(statement, (holder,)).fetchall():
                with lock:
                    events.append(("start", key, message))
                with lock:
                    events.append(("end", key, message))
                assert ack(session, [message], holder=holder) == [message]
                done += 1
        return done

    running = [Background(work, connect(), f"holder-{number}") for number in range(4)]
    until(lambda: not any(one.running for one in running))
    assert sum(one.result() for one in running) == left
    for key, messages in expected.items():
        order = [(word, message) for word, of, message in events if of == key]
        assert order == [(word, one) for one in messages for word in ("start", "end")]
        assert all(a < b for a, b in pairwise(messages))


def test_delayed_messages_do_not_hide_what_comes_after_them(db: Session) -> None:
    """However many there are, one claim gets past them."""
    db.execute(
        """
        select penstock.publish_messages('q', array_agg('{}'::jsonb),
            keys => array_agg('later-' || n),
            deliver_after => array[penstock_data.clock() + interval '1 day'])
        from generate_series(1, 3000) n
        """
    )
    message = publish(db, key="now")
    assert claim(db) == [message]
