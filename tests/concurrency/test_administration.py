"""Creating, deleting, purging, requeueing and installing while others are at work."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from penstock import schema
from tests.concurrency.sessions import (
    QUEUES,
    Background,
    ack,
    call,
    claim,
    create,
    drain,
    in_background,
    publish,
    publish_many,
    value,
)
from tests.fixtures import clock
from tests.fixtures.maintenance import maintain

if TYPE_CHECKING:
    from tests.fixtures.databases import Connect, Database

    Session = psycopg.Connection[Any]


@pytest.mark.parametrize("function", ["create_queue", "create_topic"])
def test_two_creators_of_one_name_get_one_id(db: Session, connect: Connect, function: str) -> None:
    first, second = connect(autocommit=False), connect()
    made = call(first, function, "q")
    waiting = in_background(db, second, lambda: call(second, function, "q"))
    first.commit()
    assert waiting.result() == made


@pytest.mark.parametrize("function", ["create_queue", "create_topic"])
def test_the_second_creator_creates_when_the_first_is_rolled_back(
    db: Session, connect: Connect, function: str
) -> None:
    first, second = connect(autocommit=False), connect()
    call(first, function, "q")
    waiting = in_background(db, second, lambda: call(second, function, "q"))
    first.rollback()
    assert waiting.result() == call(db, function, "q")
    message = publish(db)
    if function == "create_queue":
        assert claim(db) == [message]


def test_two_creators_with_other_settings_are_told(db: Session, connect: Connect) -> None:
    first, second = connect(autocommit=False), connect()
    call(first, "create_queue", "q")
    waiting = in_background(db, second, lambda: call(second, "create_queue", "q", ordering="fifo"))
    first.commit()
    with pytest.raises(psycopg.DatabaseError) as error:
        waiting.result()
    assert error.value.sqlstate == "PS006"


@pytest.mark.parametrize("kind", QUEUES)
def test_a_queue_starts_at_one_moment_while_others_write(
    db: Session, connect: Connect, kind: str
) -> None:
    """All parts of a first position come from one snapshot."""
    call(db, "create_topic", "q")

    def write(session: Session) -> None:
        for _ in range(300):
            publish(session)

    writer = Background(write, connect())
    number = 0
    while writer.running or number == 0:
        number += 1
        create(db, kind, f"queue-{number}")
    writer.result()
    different = """
        select count(*) from penstock_data.positions
        where window_from::text <> window_to::text or flagged_from::text <> window_to::text
    """
    assert value(db, different) == 0


@pytest.mark.parametrize(
    ("function", "more"), [("consume_message", ()), ("consume_messages_batch", (2,))]
)
def test_a_claim_of_an_unknown_queue_is_told_without_a_wait(
    db: Session, function: str, more: tuple[int, ...]
) -> None:
    call(db, "configure", "lock_wait", "1 hour")
    with pytest.raises(psycopg.DatabaseError) as error:
        call(db, function, "q", "t", 30, *more)
    assert error.value.sqlstate == "PS002"


def test_a_claim_that_waits_for_a_deletion_is_told(db: Session, connect: Connect) -> None:
    call(db, "configure", "lock_wait", "1 hour")
    create(db)
    publish(db)
    first, second = connect(autocommit=False), connect()
    call(first, "delete_queue", "q")
    waiting = in_background(db, second, lambda: claim(second))
    first.commit()
    with pytest.raises(psycopg.DatabaseError) as error:
        waiting.result()
    assert error.value.sqlstate == "PS002"


def test_a_deletion_waits_for_a_claim(db: Session, connect: Connect) -> None:
    create(db)
    publish_many(db, 2)
    first, second = connect(autocommit=False), connect()
    messages = claim(first)
    waiting = in_background(db, second, lambda: call(second, "delete_queue", "q"))
    first.commit()
    waiting.result()
    with pytest.raises(psycopg.DatabaseError) as error:
        ack(db, messages)
    assert error.value.sqlstate == "PS002"
    left = "select count(*) from penstock_data.claims"
    assert value(db, left) == 0


def test_a_deletion_rolled_back_leaves_the_queue(db: Session, connect: Connect) -> None:
    create(db)
    messages = publish_many(db, 2)
    first, second = connect(autocommit=False), connect()
    call(first, "delete_queue", "q")
    waiting = in_background(db, second, lambda: claim(second))
    first.rollback()
    assert waiting.result() == messages


@pytest.mark.parametrize("verb", ["ack_message", "nack_message", "extend_message_vt"])
def test_a_deletion_waits_for_what_a_worker_has_under_way(
    db: Session, connect: Connect, verb: str
) -> None:
    create(db)
    message = publish(db)
    claim(db)
    worker, other = connect(autocommit=False), connect()
    given = (60,) if verb == "extend_message_vt" else ()
    assert call(worker, verb, "q", message, "t", *given)
    waiting = in_background(db, other, lambda: call(other, "delete_queue", "q"))
    worker.commit()
    waiting.result()
    for table in ("claims", "scheduled", "positions"):
        assert value(db, f"select count(*) from penstock_data.{table}") == 0, table


@pytest.mark.parametrize("kind", QUEUES)
def test_a_purge_waits_for_a_claim_and_voids_it(db: Session, connect: Connect, kind: str) -> None:
    create(db, kind)
    messages = publish_many(db, 4)
    first, second = connect(autocommit=False), connect()
    taken = claim(first, 2)
    waiting = in_background(db, second, lambda: call(second, "purge_queue", "q"))
    first.commit()
    assert waiting.result() == len(messages)
    assert ack(db, taken) == []
    after = publish_many(db, 2)
    assert drain(db, kind) == after


@pytest.mark.parametrize("kind", QUEUES)
def test_a_claim_waits_for_a_purge_and_finds_what_came_after(
    db: Session, connect: Connect, kind: str
) -> None:
    create(db, kind)
    publish_many(db, 4)
    late, first, second = connect(autocommit=False), connect(autocommit=False), connect()
    message = publish(late)
    assert call(first, "purge_queue", "q") == 4
    waiting = in_background(db, second, lambda: claim(second))
    late.commit()
    first.commit()
    assert waiting.result() == [message]


def test_a_nack_under_way_does_not_survive_a_purge_out_of_sight(
    db: Session, connect: Connect
) -> None:
    """Whatever a purge leaves can be claimed; nothing lies where no claim looks."""
    create(db)
    message = publish(db, priority=7)
    claim(db)
    worker, other = connect(autocommit=False), connect()
    assert call(worker, "nack_message", "q", message, "t", 0)
    waiting = in_background(db, other, lambda: call(other, "purge_queue", "q"))
    worker.commit()
    waiting.result()
    assert value(db, "select count(*) from penstock_data.scheduled") == len(claim(db))


@pytest.mark.parametrize("kind", QUEUES)
def test_a_requeue_waits_for_a_claim_and_is_delivered_once(
    db: Session, connect: Connect, kind: str
) -> None:
    create(db, kind)
    dead, other = publish_many(db, 2)
    claim(db, 1)
    assert call(db, "bury_message", "q", dead, "t")
    first, second = connect(autocommit=False), connect()
    assert claim(first) == [other]
    waiting = in_background(db, second, lambda: call(second, "requeue_dlq_messages", "q"))
    first.commit()
    assert waiting.result() == 1
    assert claim(db) == [dead]
    assert claim(db) == []


def test_a_claim_waits_for_a_requeue(db: Session, connect: Connect) -> None:
    create(db)
    dead = publish(db)
    claim(db)
    call(db, "bury_message", "q", dead, "t")
    first, second = connect(autocommit=False), connect()
    assert call(first, "requeue_dlq_messages", "q") == 1
    waiting = in_background(db, second, lambda: claim(second))
    first.commit()
    assert waiting.result() == [dead]


def test_two_requeues_of_one_dead_letter_put_back_one(db: Session, connect: Connect) -> None:
    create(db)
    dead = publish(db)
    claim(db)
    call(db, "bury_message", "q", dead, "t")
    first, second = connect(autocommit=False), connect()
    assert call(first, "requeue_dlq_messages", "q") == 1
    waiting = in_background(db, second, lambda: call(second, "requeue_dlq_messages", "q"))
    first.commit()
    assert waiting.result() == 0
    assert claim(db) == [dead]


def test_housekeeping_does_not_drop_what_is_being_requeued(db: Session, connect: Connect) -> None:
    """The message lies where the emptying of its segment put it, and nothing else needs it."""
    create(db)
    dead = publish(db)
    claim(db)
    call(db, "configure", "segment_bytes", "1")
    maintain(db)
    assert value(db, "select segment from penstock_data.messages") == 0
    call(db, "bury_message", "q", dead, "t")
    session = connect(autocommit=False)
    assert call(session, "requeue_dlq_messages", "q") == 1
    maintain(db)
    session.commit()
    maintain(db)
    assert claim(db) == [dead]


def test_a_queue_kept_alive_in_time_is_not_cleaned_up(db: Session, connect: Connect) -> None:
    call(db, "create_queue", "q", exclusive=True, keep_alive_seconds=60)
    keeper = connect(autocommit=False)
    assert call(keeper, "extend_queue_keep_alive", "q", 600)
    clock.advance(db, 61)
    assert call(db, "cleanup_expired_exclusive_queues") == 0
    keeper.commit()
    assert call(db, "cleanup_expired_exclusive_queues") == 0
    message = publish(db)
    assert claim(db) == [message]


def test_a_queue_whose_extension_is_rolled_back_is_cleaned_up(
    db: Session, connect: Connect
) -> None:
    call(db, "create_queue", "q", exclusive=True, keep_alive_seconds=60)
    keeper = connect(autocommit=False)
    assert call(keeper, "extend_queue_keep_alive", "q", 600)
    clock.advance(db, 61)
    assert call(db, "cleanup_expired_exclusive_queues") == 0
    keeper.rollback()
    assert call(db, "cleanup_expired_exclusive_queues") == 1


def test_an_extension_that_meets_the_cleanup_is_told(db: Session, connect: Connect) -> None:
    call(db, "create_queue", "q", exclusive=True, keep_alive_seconds=60)
    clock.advance(db, 61)
    cleaner, keeper = connect(autocommit=False), connect()
    assert call(cleaner, "cleanup_expired_exclusive_queues") == 1
    with pytest.raises(psycopg.DatabaseError) as error:
        call(keeper, "extend_queue_keep_alive", "q", 600)
    assert error.value.sqlstate == "PS008"
    cleaner.commit()


def test_two_installations_at_once_succeed(empty_database: Database) -> None:
    with (
        psycopg.connect(empty_database.dsn, autocommit=True) as observer,
        psycopg.connect(empty_database.dsn) as first,
        psycopg.connect(empty_database.dsn) as second,
    ):
        first.execute("begin")
        first.execute(schema.script("install.sql").encode())
        waiting = in_background(observer, second, lambda: schema.install(second))
        first.commit()
        waiting.result()
        schema.check(second)


def test_an_installation_over_a_working_one_waits_for_nobody_to_lose_anything(
    db: Session, connect: Connect
) -> None:
    create(db)
    expected = publish_many(db, 3)
    found = claim(db, 1)
    schema.install(connect(autocommit=False))
    assert ack(db, found) == found
    assert found + drain(db) == expected
