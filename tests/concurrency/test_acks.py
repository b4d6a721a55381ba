"""Acks, extensions and expiry of one claim from several sessions: exactly one wins."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

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
    values,
)
from tests.fixtures import clock
from tests.fixtures.maintenance import maintain

if TYPE_CHECKING:
    import psycopg

    from tests.fixtures.databases import Connect

    Session = psycopg.Connection[Any]


@pytest.fixture(params=["standard", "fifo", "fair"])
def kind(request: pytest.FixtureRequest, db: Session) -> str:
    create(db, request.param)
    return str(request.param)


def state(db: Session, message: int) -> str:
    return str(call(db, "message_state", "q", message))


def test_an_ack_under_way_is_not_taken_back(db: Session, connect: Connect, kind: str) -> None:
    message = publish(db)
    claim(db, seconds=10)
    worker = connect(autocommit=False)
    assert ack(worker, [message]) == [message]
    clock.advance(db, 11)
    assert claim(db, holder="other") == []
    worker.commit()
    clock.advance(db, 11)
    assert claim(db, holder="other") == []
    assert state(db, message) == "done"


def test_an_ack_rolled_back_after_the_deadline_gives_the_message_to_others(
    db: Session, connect: Connect, kind: str
) -> None:
    message = publish(db)
    claim(db, seconds=10)
    worker = connect(autocommit=False)
    assert ack(worker, [message]) == [message]
    clock.advance(db, 11)
    assert claim(db, holder="other") == []
    worker.rollback()
    clock.advance(db, 11)
    assert claim(db, holder="other") == [message]
    assert ack(db, [message]) == []


def test_an_ack_that_comes_while_the_claim_is_taken_back_loses(
    db: Session, connect: Connect, kind: str
) -> None:
    """The ack began in time, by the clock it read; the row was gone when it looked."""
    message = publish(db)
    claim(db, seconds=10)
    other, worker = connect(autocommit=False), connect()
    db.execute("update penstock_data.claims set deadline = deadline - interval '11 seconds'")
    clock.advance(db, 11)
    assert claim(other, holder="other") == [message]
    assert ack(worker, [message]) == []
    other.rollback()
    assert ack(worker, [message]) == []
    assert claim(db, holder="other") == [message]


def test_single_acks_of_one_claim_from_many_sessions_all_succeed(
    db: Session, connect: Connect, kind: str
) -> None:
    messages = publish_many(db, 24)
    assert claim(db) == messages
    sessions = [connect() for _ in range(6)]

    def work(session: Session, share: list[int]) -> list[bool]:
        return [bool(call(session, "ack_message", "q", message, "t")) for message in share]

    running = [
        Background(work, session, messages[number::6]) for number, session in enumerate(sessions)
    ]
    assert all(done for one in running for done in one.result())
    clock.advance(db, 60)
    assert drain(db, kind) == []


def test_an_ack_waits_for_the_ack_of_its_neighbour_and_succeeds(
    db: Session, connect: Connect, kind: str
) -> None:
    first, second, third = publish_many(db, 3)
    claim(db)
    slow, quick, last = connect(autocommit=False), connect(), connect()
    assert ack(slow, [first]) == [first]
    waiting = in_background(db, quick, lambda: ack(quick, [second]))
    behind = in_background(db, last, lambda: ack(last, [third]))
    slow.commit()
    assert waiting.result() == [second]
    assert behind.result() == [third]


def test_an_ack_takes_over_when_the_ack_of_its_neighbour_is_rolled_back(
    db: Session, connect: Connect, kind: str
) -> None:
    first, second = publish_many(db, 2)
    claim(db)
    slow, quick = connect(autocommit=False), connect()
    assert ack(slow, [first, second]) == [first, second]
    waiting = in_background(db, quick, lambda: ack(quick, [second]))
    slow.rollback()
    assert waiting.result() == [second]
    assert ack(db, [first]) == [first]


def test_of_two_acks_of_one_message_one_wins(db: Session, connect: Connect, kind: str) -> None:
    message = publish(db)
    claim(db)
    first, second = connect(autocommit=False), connect()
    assert ack(first, [message]) == [message]
    waiting = in_background(db, second, lambda: ack(second, [message]))
    first.commit()
    assert waiting.result() == []
    done = (
        "select sum(cardinality(message_ids)) from penstock_data.receipts where outcome = 'acked'"
    )
    assert value(db, done) == 1


def test_of_an_ack_and_a_nack_of_one_message_one_wins(
    db: Session, connect: Connect, kind: str
) -> None:
    message = publish(db)
    claim(db)
    first, second = connect(autocommit=False), connect()
    assert call(first, "nack_message", "q", message, "t", 0)
    waiting = in_background(db, second, lambda: ack(second, [message]))
    first.commit()
    assert waiting.result() == []
    assert drain(db, kind) == [message]


@pytest.mark.parametrize("count", [1, 3])
def test_an_ack_waits_for_an_extension_and_succeeds(
    db: Session, connect: Connect, kind: str, count: int
) -> None:
    messages = publish_many(db, count)
    claim(db, seconds=10)
    keeper, worker = connect(autocommit=False), connect()
    extended = "select message_id from penstock.batch_extend_message_vt('q', %s, 't', 30)"
    assert sorted(values(keeper, extended, messages)) == messages
    waiting = in_background(db, worker, lambda: ack(worker, messages))
    keeper.commit()
    assert sorted(waiting.result()) == messages


def test_an_ack_of_one_message_finds_the_claim_that_an_extension_wrote_anew(
    db: Session, connect: Connect, kind: str
) -> None:
    messages = publish_many(db, 3)
    claim(db, seconds=10)
    keeper, worker = connect(autocommit=False), connect()
    keeper.execute("select penstock.batch_extend_message_vt('q', %s, 't', 30)", (messages,))
    waiting = in_background(db, worker, lambda: ack(worker, [messages[1]]))
    keeper.commit()
    assert waiting.result() == [messages[1]]
    assert sorted(ack(db, messages)) == [messages[0], messages[2]]


def test_an_extension_that_waits_for_an_ack_learns_that_the_claim_is_gone(
    db: Session, connect: Connect, kind: str
) -> None:
    message = publish(db)
    claim(db)
    worker, keeper = connect(autocommit=False), connect()
    assert ack(worker, [message]) == [message]
    extend = ("extend_message_vt", "q", message, "t", 30)
    waiting = in_background(db, keeper, lambda: call(keeper, *extend))
    worker.commit()
    assert waiting.result() is None
    assert state(db, message) == "done"


@pytest.mark.parametrize("count", [1, 3])
def test_an_attempt_begins_in_the_claim_that_an_extension_wrote_anew(
    db: Session, connect: Connect, kind: str, count: int
) -> None:
    messages = publish_many(db, count)
    claim(db, seconds=10)
    keeper, worker = connect(autocommit=False), connect()
    keeper.execute("select penstock.batch_extend_message_vt('q', %s, 't', 30)", (messages,))
    begin = ("begin_attempt", "q", messages[-1], "t")
    waiting = in_background(db, worker, lambda: call(worker, *begin))
    keeper.commit()
    assert waiting.result() is True
    clock.advance(db, seconds=31)
    assert sorted(ack(db, messages)) == messages


def test_an_extension_of_one_message_and_acks_of_the_others_mix(
    db: Session, connect: Connect, kind: str
) -> None:
    messages = publish_many(db, 10)
    claim(db)
    sessions = [connect() for _ in range(4)]

    def extend(session: Session) -> list[object]:
        return [call(session, "extend_message_vt", "q", messages[0], "t", 1) for _ in range(20)]

    def work(session: Session, share: list[int]) -> list[int]:
        return [done for message in share for done in ack(session, [message])]

    keeper = Background(extend, sessions[3])
    running = [
        Background(work, session, messages[1:][number::3])
        for number, session in enumerate(sessions[:3])
    ]
    assert sorted(done for one in running for done in one.result()) == messages[1:]
    assert all(keeper.result())
    assert ack(db, [messages[0]]) == [messages[0]]


def test_an_extension_under_way_is_not_taken_back(db: Session, connect: Connect, kind: str) -> None:
    message = publish(db)
    claim(db, seconds=10)
    keeper = connect(autocommit=False)
    assert call(keeper, "extend_message_vt", "q", message, "t", 60)
    clock.advance(db, 11)
    assert claim(db, holder="other") == []
    keeper.commit()
    clock.advance(db, 11)
    assert claim(db, holder="other") == []
    assert ack(db, [message]) == [message]


@pytest.mark.parametrize("kind", QUEUES)
def test_work_and_ack_in_one_transaction_take_effect_once(
    db: Session, connect: Connect, kind: str
) -> None:
    create(db, kind)
    db.execute("create table effects (message_id bigint)")
    message = publish(db)
    slow, quick = connect(autocommit=False), connect(autocommit=False)
    claim(db, holder="slow", seconds=10)
    slow.execute("insert into effects values (%s)", (message,))
    clock.advance(db, 11)
    assert claim(db, holder="quick", seconds=10) == [message]
    quick.execute("insert into effects values (%s)", (message,))
    for session, holder in ((slow, "slow"), (quick, "quick")):
        if ack(session, [message], holder=holder):
            session.commit()
        else:
            session.rollback()
    assert values(db, "select message_id from effects") == [message]
    assert drain(db, kind) == []


def test_an_ack_already_made_keeps_its_effect_when_the_deadline_passes_before_commit(
    db: Session, connect: Connect, kind: str
) -> None:
    db.execute("create table effects (message_id bigint)")
    message = publish(db)
    claim(db, seconds=10)
    worker = connect(autocommit=False)
    worker.execute("insert into effects values (%s)", (message,))
    assert ack(worker, [message]) == [message]
    clock.advance(db, 60)
    maintain(db)
    assert claim(db, holder="other") == []
    worker.commit()
    clock.advance(db, 60)
    assert drain(db, kind) == []
    assert values(db, "select message_id from effects") == [message]
