"""A dedupe key from two sides: one message, whoever commits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.concurrency.sessions import Background, create, drain, in_background, publish, value
from tests.fixtures import clock
from tests.fixtures.maintenance import maintain

if TYPE_CHECKING:
    import psycopg

    from tests.fixtures.databases import Connect

    Session = psycopg.Connection[Any]


@pytest.fixture(autouse=True)
def _queue(db: Session) -> None:
    create(db)


def test_the_second_waits_and_gets_the_first_id(db: Session, connect: Connect) -> None:
    first, second = connect(autocommit=False), connect()
    message = publish(first, dedupe_key="once")
    waiting = in_background(db, second, lambda: publish(second, dedupe_key="once"))
    first.commit()
    assert waiting.result() == message
    assert drain(db) == [message]


def test_the_second_publishes_when_the_first_is_rolled_back(db: Session, connect: Connect) -> None:
    first, second = connect(autocommit=False), connect()
    gone = publish(first, dedupe_key="once")
    waiting = in_background(db, second, lambda: publish(second, dedupe_key="once"))
    first.rollback()
    message = waiting.result()
    assert message != gone
    assert publish(db, dedupe_key="once") == message
    assert drain(db) == [message]


def test_another_key_need_not_wait(db: Session, connect: Connect) -> None:
    first = connect(autocommit=False)
    publish(first, dedupe_key="once")
    message = publish(db, dedupe_key="another")
    assert drain(db) == [message]


def test_a_key_renewed_after_its_window_from_two_sides_gives_one_message(
    db: Session, connect: Connect
) -> None:
    old = publish(db, dedupe_key="once")
    clock.advance(db, 600)
    first, second = connect(autocommit=False), connect()
    message = publish(first, dedupe_key="once")
    waiting = in_background(db, second, lambda: publish(second, dedupe_key="once"))
    first.commit()
    assert waiting.result() == message
    assert drain(db) == [old, message]


def test_housekeeping_does_not_wait_for_a_key_that_is_being_renewed(
    db: Session, connect: Connect
) -> None:
    publish(db, dedupe_key="once")
    clock.advance(db, 600)
    first = connect(autocommit=False)
    message = publish(first, dedupe_key="once")
    maintain(db)
    first.commit()
    assert publish(db, dedupe_key="once") == message


def test_many_at_once_publish_one_message_per_key(db: Session, connect: Connect) -> None:
    def work(session: Session) -> list[int]:
        return [publish(session, dedupe_key=f"key-{n}") for n in range(15)]

    running = [Background(work, connect()) for _ in range(5)]
    results = [one.result() for one in running]
    assert all(ids == results[0] for ids in results)
    assert drain(db) == sorted(results[0])
    assert value(db, "select count(*) from penstock_data.messages") == 15
