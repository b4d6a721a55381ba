"""Rotation against readers and writers that take their time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.concurrency.sessions import (
    QUEUES,
    READER,
    Background,
    ack,
    call,
    claim,
    create,
    drain,
    in_background,
    publish,
    publish_many,
    take,
    until,
    value,
    waits,
)
from tests.fixtures import clock, maintenance

if TYPE_CHECKING:
    import psycopg

    from tests.fixtures.databases import Connect

    Session = psycopg.Connection[Any]

KINDS = [*QUEUES, READER]


@pytest.fixture(autouse=True)
def _small_segments(db: Session) -> None:
    call(db, "configure", "segment_bytes", "1")


def maintain(db: Session) -> int:
    """How many segments it emptied."""
    return maintenance.maintain(db).get("segments emptied", 0)


def kept(db: Session) -> int:
    return int(value(db, "select count(*) from penstock_data.messages"))


def test_housekeeping_gives_up_on_a_slow_reader_and_succeeds_later(
    db: Session, connect: Connect
) -> None:
    create(db)
    publish_many(db, 10)
    drain(db)
    reader = connect(isolation="repeatable read", autocommit=False)
    assert value(reader, "select count(*) from penstock_data.messages") == 10
    assert maintain(db) == 0
    after = publish_many(db, 3)
    assert drain(db) == after
    assert value(reader, "select count(*) from penstock_data.messages") == 10
    reader.commit()
    assert maintain(db) > 0
    assert maintain(db) + kept(db) <= 3


def test_claims_go_on_while_a_slow_reader_holds_a_segment(db: Session, connect: Connect) -> None:
    create(db)
    reader = connect(isolation="repeatable read", autocommit=False)
    for _ in range(5):
        published = publish_many(db, 5)
        value(reader, "select count(*) from penstock_data.messages")
        assert drain(db) == published
        maintain(db)
    reader.commit()


@pytest.mark.parametrize("kind", KINDS)
def test_a_publisher_that_chose_its_segment_before_the_switch_is_read(
    db: Session, connect: Connect, kind: str
) -> None:
    create(db, kind)
    expected = publish_many(db, 2)
    late = connect(autocommit=False)
    expected.append(publish(late))
    found = drain(db, kind)
    for _ in range(4):
        maintain(db)
        expected += publish_many(db, 2)
        found += drain(db, kind)
    late.commit()
    maintain(db)
    found += drain(db, kind)
    assert sorted(found) == sorted(expected)
    maintain(db)
    assert kept(db) == 0


@pytest.mark.parametrize("kind", ["standard", "fifo", READER])
def test_a_commit_while_housekeeping_waits_for_the_segment_is_read(
    db: Session, connect: Connect, kind: str
) -> None:
    """Housekeeping found everything read, then had to wait for just this writer."""
    create(db, kind)
    keeper, late = connect(), connect(autocommit=False)
    for _ in range(5):
        first = publish(db)
        message = publish(late)
        assert drain(db, kind) == [first]
        running = Background(maintain, keeper)
        until(lambda job=running: waits(db, keeper) or not job.running)
        late.commit()
        running.result()
        assert drain(db, kind) == [message]


@pytest.mark.parametrize("kind", KINDS)
def test_a_switch_in_the_middle_of_a_window_loses_nothing(
    db: Session, connect: Connect, kind: str
) -> None:
    create(db, kind)
    expected, found = publish_many(db, 6), []
    while len(found) < 6:
        found += take(db, kind, 1)
        maintain(db)
        expected += publish_many(db, 1)
    found += drain(db, kind)
    assert found == expected


@pytest.mark.parametrize("kind", QUEUES)
def test_what_is_claimed_or_waits_survives_the_emptying_of_its_segment(
    db: Session, connect: Connect, kind: str
) -> None:
    create(db, kind)
    claimed, waits, plain = publish_many(db, 3)
    assert claim(db, 1) == [claimed]
    assert claim(db, 1, holder="u") == [waits]
    assert call(db, "nack_message", "q", waits, "u", 60)
    assert claim(db, 1, holder="v") == [plain]
    worker = connect(autocommit=False)
    assert ack(worker, [plain], holder="v") == [plain]
    maintain(db)
    maintain(db)
    worker.rollback()
    assert ack(db, [claimed]) == [claimed]
    clock.advance(db, 70)
    assert sorted(drain(db, kind)) == [waits, plain]
    maintain(db)
    assert kept(db) == 0


def test_a_claim_waits_for_a_segment_that_is_being_emptied_and_finds_what_was_moved(
    db: Session, connect: Connect
) -> None:
    create(db)
    first, second = publish_many(db, 2)
    assert claim(db) == [first, second]
    assert call(db, "nack_message", "q", first, "t", 0)
    keeper, consumer, giver = connect(autocommit=False), connect(), connect()
    assert maintain(keeper) == 1
    waiting = in_background(db, consumer, lambda: claim(consumer, holder="u"))
    giving = in_background(db, giver, lambda: call(giver, "nack_message", "q", second, "t", 0))
    keeper.commit()
    assert giving.result()
    found = waiting.result() + claim(db, holder="v")
    assert sorted(found) == [first, second]


def test_two_housekeepers_at_once_do_the_work_once(db: Session, connect: Connect) -> None:
    create(db)
    publish_many(db, 5)
    drain(db)
    first, second = connect(autocommit=False), connect()
    assert maintain(first) == 1
    assert second.execute("select * from penstock.maintain()").fetchall() == []
    first.commit()
    assert kept(db) == 0


def test_housekeepers_publishers_and_consumers_at_once_lose_nothing(
    db: Session, connect: Connect
) -> None:
    create(db, "standard", "a")
    create(db, "fifo", "b")
    create(db, "fair", "c")
    names = ("a", "b", "c")

    def keep(session: Session) -> int:
        return sum(maintain(session) for _ in range(40))

    def write(session: Session) -> list[int]:
        ids: list[int] = []
        for number in range(40):
            with session.transaction():
                ids += publish_many(session, 3)
                if number % 5 == 0:
                    ids.append(publish(session, priority=1, key=f"urgent-{number}"))
        return ids

    def work(session: Session, name: str) -> list[int]:
        found: list[int] = []
        for number in range(80):
            ids = claim(session, 4, holder=name, name=name)
            if number % 7 == 0 and ids:
                again = "select penstock.nack_messages(%s, %s, %s, 0)"
                session.execute(again, (name, ids, name))
            else:
                found += ack(session, ids, holder=name, name=name)
        return found

    writers = [Background(write, connect()) for _ in range(2)]
    keeper = Background(keep, connect())
    workers = {name: Background(work, connect(), name) for name in names}
    expected = sorted(one for writer in writers for one in writer.result())
    keeper.result()
    for name, worker in workers.items():
        found = worker.result()
        clock.advance(db, 30)
        while ids := claim(db, 100, holder="rest", name=name):
            found += ack(db, ids, holder="rest", name=name)
        dead = call(db, "purge_dlq", name)
        assert len(found) == len(set(found)), name
        assert len(found) + dead == len(expected), name
