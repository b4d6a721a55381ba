"""Claims on one queue take turns, and none of them can stop the others for good."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from prove.sabotage import rewrite
from tests.concurrency.sessions import (
    QUEUES,
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
)
from tests.fixtures import clock

if TYPE_CHECKING:
    from tests.fixtures.databases import Connect

    Session = psycopg.Connection[Any]


@pytest.fixture(params=QUEUES)
def kind(request: pytest.FixtureRequest, db: Session) -> str:
    create(db, request.param)
    return str(request.param)


def test_a_claim_waits_for_the_one_before_and_gets_what_is_left(
    db: Session, connect: Connect, kind: str
) -> None:
    expected = publish_many(db, 5)
    first, second = connect(autocommit=False), connect()
    taken = claim(first, 2, holder="first")
    waiting = in_background(db, second, lambda: claim(second, 5, holder="second"))
    first.commit()
    assert taken + waiting.result() == expected


def test_a_claim_rolled_back_while_another_waits_leaves_everything_to_it(
    db: Session, connect: Connect, kind: str
) -> None:
    expected = publish_many(db, 5)
    first, second = connect(autocommit=False), connect()
    assert claim(first, 2, holder="first") == expected[:2]
    waiting = in_background(db, second, lambda: claim(second, 5, holder="second"))
    first.rollback()
    assert waiting.result() == expected
    assert ack(db, expected[:2], holder="first") == []


def test_two_claimers_share_nothing_and_both_get_something(
    db: Session, connect: Connect, kind: str
) -> None:
    expected = publish_many(db, 200)
    sessions = [connect(), connect()]

    # A claim may come back with less than five while the other session holds the rest.
    def work(session: Session, holder: str) -> list[int]:
        return [one for _ in range(20) for one in claim(session, 5, holder=holder)]

    running = [
        Background(work, session, f"holder-{number}") for number, session in enumerate(sessions)
    ]
    shares = [one.result() for one in running]
    assert all(shares)
    while rest := claim(sessions[0], 5, holder="holder-0"):
        shares[0] += rest
    assert sorted(shares[0] + shares[1]) == expected


@pytest.mark.parametrize("kind", ["standard", "fifo"])
def test_a_claim_lock_that_is_held_alone_costs_the_others_a_moment_and_no_more(
    db: Session, connect: Connect, kind: str
) -> None:
    create(db, kind, "other")
    create(db, kind)
    call(db, "configure", "lock_wait", "30 milliseconds")
    expected = publish_many(db, 3)
    holder = connect(autocommit=False)
    holder.execute("select penstock_data.lock_queue('q')")
    assert claim(db) == []
    assert claim(db, name="other") == expected
    holder.commit()
    assert claim(db) == expected


def test_health_names_who_holds_a_queue(db: Session, connect: Connect) -> None:
    create(db, name="slow queue")
    publish(db)
    holder = connect(autocommit=False)
    assert claim(holder, name="slow queue")
    # The check looks at how long the transaction has been open; so does this test, by waiting.
    db.execute("select pg_sleep(1.1)")
    detail = value(db, "select detail from penstock.health() where name = 'claim locks' and not ok")
    assert str(pid(holder)) in detail
    assert "slow queue" in detail
    holder.commit()
    assert value(db, "select ok from penstock.health() where name = 'claim locks'")


def test_a_cancelled_wait_leaves_the_session_usable(db: Session, connect: Connect) -> None:
    create(db)
    expected = publish_many(db, 2)
    holder, other = connect(autocommit=False), connect()
    claim(holder, 1)
    waiting = in_background(db, other, lambda: claim(other))
    other.cancel_safe()
    with pytest.raises(psycopg.errors.QueryCanceled):
        waiting.result()
    holder.commit()
    assert claim(other) == expected[1:]


def test_a_consumer_that_dies_with_an_open_claim_leaves_its_messages(
    db: Session, connect: Connect, kind: str
) -> None:
    expected = publish_many(db, 3)
    victim, other = connect(autocommit=False), connect()
    assert claim(victim, holder="victim") == expected
    waiting = in_background(db, other, lambda: claim(other))
    db.execute("select pg_terminate_backend(%s)", (pid(victim),))
    assert waiting.result() == expected


def test_claims_go_on_at_a_bounded_cost_behind_a_writer_that_stays_open(
    db: Session, connect: Connect, kind: str
) -> None:
    """What a claim keeps in mind of open transactions does not grow."""
    writer = connect(autocommit=False)
    message = publish(writer)
    statement = """
        select pg_column_size(p.*) from penstock_data.positions p order by p.seq desc limit 1
    """
    sizes = []
    for _ in range(40):
        published = publish_many(db, 3)
        assert drain(db, kind) == published
        sizes.append(value(db, statement))
    assert max(sizes[5:]) <= max(sizes[:5]) + 32
    writer.commit()
    assert drain(db, kind) == [message]


@pytest.mark.parametrize("verb", ["nack_message", "release_message"])
def test_a_message_given_back_during_a_claim_can_be_had_at_once(
    db: Session, connect: Connect, kind: str, verb: str
) -> None:
    """It carries a time before that claim's, but the next claim sees that it is new."""
    message, other = publish_many(db, 2)
    assert claim(db, 1) == [message]
    late = connect(autocommit=False)
    given = (0,) if verb == "nack_message" else ()
    assert call(late, verb, "q", message, "t", *given)
    assert claim(db, holder="u") == [other]
    late.commit()
    assert claim(db) == [message]


@pytest.mark.parametrize("verb", ["nack_message", "release_message"])
def test_a_message_given_back_long_before_its_commit_can_be_had_at_once(
    db: Session, connect: Connect, kind: str, verb: str
) -> None:
    message, other = publish_many(db, 2)
    assert claim(db, 1, seconds=600) == [message]
    late = connect(autocommit=False)
    given = (0,) if verb == "nack_message" else ()
    assert call(late, verb, "q", message, "t", *given)
    clock.advance(db, 20)
    assert claim(db, 1, holder="u", seconds=600) == [other]
    clock.advance(db, 5)
    publish_many(db, 1)
    assert len(claim(db, 1, holder="u", seconds=600)) == 1
    late.commit()
    assert claim(db) == [message]


def test_messages_given_back_by_transactions_that_commit_in_reverse_order_are_all_found(
    db: Session, connect: Connect, kind: str
) -> None:
    """Each claim passes the places of those that are still open."""
    messages = publish_many(db, 5)
    assert [claim(db, 1, seconds=600) for _ in messages] == [[message] for message in messages]
    givers = [connect(autocommit=False) for _ in messages]
    for giver, message in zip(givers, messages, strict=True):
        assert call(giver, "release_message", "q", message, "t")
    for giver, message in reversed(list(zip(givers, messages, strict=True))):
        assert claim(db, holder="u", seconds=600) == []
        giver.commit()
        clock.advance(db, 0.1)
        assert claim(db, holder="u", seconds=600) == [message]


def test_late_messages_of_several_priorities_keep_their_order(
    db: Session, connect: Connect
) -> None:
    create(db)
    high, low, plain = publish(db, priority=5), publish(db, priority=-5), publish(db)
    assert claim(db, 3, seconds=600) == [high, plain, low]
    late = connect(autocommit=False)
    for message in (low, plain, high):
        assert call(late, "release_message", "q", message, "t")
    clock.advance(db, 30)
    assert claim(db, holder="u") == []
    publish_many(db, 2)
    assert len(claim(db, 2, holder="u", seconds=600)) == 2
    late.commit()
    assert claim(db, 3) == [high, plain, low]


def test_a_retry_that_committed_late_waits_for_its_time(
    db: Session, connect: Connect, kind: str
) -> None:
    message = publish(db)
    assert claim(db, seconds=600) == [message]
    late = connect(autocommit=False)
    assert call(late, "nack_message", "q", message, "t", 30)
    clock.advance(db, 20)
    assert claim(db) == []
    late.commit()
    assert claim(db) == []
    clock.advance(db, 11)
    assert claim(db) == [message]


def test_a_message_delivered_to_one_queue_by_a_late_committer_can_be_had_at_once(
    db: Session, connect: Connect, kind: str
) -> None:
    publish(db, key="before")
    late = connect(autocommit=False)
    if kind == "fifo":  # it goes by the claim lock there
        call(db, "configure", "lock_wait", "30 milliseconds")
    (message,) = value(
        late,
        """
        select penstock_data.deliver(q.id, array['{}'::jsonb], null, array['k'], null, null)
        from penstock_data.queues q
        """,
    )
    clock.advance(db, 5)
    assert len(claim(db, 1, seconds=600)) == (0 if kind == "fifo" else 1)
    late.commit()
    assert message in claim(db, 2)


def test_claims_go_on_when_the_clock_is_put_back(db: Session, kind: str) -> None:
    message = publish(db)
    clock.advance(db, 3600)
    assert claim(db, seconds=600) == [message]
    clock.advance(db, -3600)
    assert call(db, "release_message", "q", message, "t")
    assert claim(db) == [message]
    another = publish(db, key="another")
    assert claim(db) == [another]


def test_a_rolled_back_nack_changes_nothing(db: Session, connect: Connect, kind: str) -> None:
    message = publish(db)
    assert claim(db) == [message]
    late = connect(autocommit=False)
    assert call(late, "nack_message", "q", message, "t", 0)
    assert claim(db, holder="u") == []
    late.rollback()
    assert claim(db, holder="u") == []
    assert ack(db, [message]) == [message]


def test_two_expiring_claims_are_taken_back_once_by_two_claimers(
    db: Session, connect: Connect, kind: str
) -> None:
    expected = publish_many(db, 20)
    for number in range(10):
        assert len(claim(db, 2, holder=f"dead-{number}", seconds=5)) == 2
    clock.advance(db, 6)
    sessions = [connect(), connect(), connect()]
    running = [
        Background(lambda s=session, n=number: claim(s, 15, holder=f"alive-{n}"))
        for number, session in enumerate(sessions)
    ]
    found = [message for one in running for message in one.result()]
    assert sorted(found) == expected


def test_no_claim_is_under_way_when_a_pause_has_returned(
    db: Session, connect: Connect, kind: str
) -> None:
    expected = publish_many(db, 3)
    first, pausing, second = connect(autocommit=False), connect(), connect()
    assert claim(first, 1, holder="first") == expected[:1]
    paused = in_background(
        db, pausing, lambda: value(pausing, "select penstock.pause_queue('q') is not null")
    )
    waiting = in_background(db, second, lambda: claim(second, 3, holder="second"))
    first.commit()
    assert paused.result() is True
    assert waiting.result() == []
    call(db, "resume_queue", "q")
    assert claim(db, 3, holder="third") == expected[1:]


@pytest.mark.parametrize("size", [1, 3])
def test_a_claim_that_looked_before_the_pause_and_locked_after_it_gets_nothing(
    db: Session, connect: Connect, size: int
) -> None:
    create(db, "standard")
    blocker, claiming = connect(), connect()
    # The statement that takes the claim lock stops between its snapshot and the lock.
    rewrite(
        db,
        "                clock_timestamp(),\n",
        "(select clock_timestamp() from pg_advisory_xact_lock_shared(7)),\n",
    )
    assert claim(claiming, size) == []
    expected = publish_many(db, 3)
    value(blocker, "select pg_advisory_lock(7)")
    waiting = in_background(db, claiming, lambda: claim_by(claiming, size))
    assert value(db, "select penstock.pause_queue('q') is not null")
    value(blocker, "select pg_advisory_unlock(7)")
    assert waiting.result() == []
    call(db, "resume_queue", "q")
    assert claim_by(claiming, size) == expected[:size]


def claim_by(session: Session, size: int) -> list[int]:
    """With the function for one message, or the one for many."""
    if size > 1:
        return claim(session, size)
    found = session.execute("select message_id from penstock.consume_message('q', 'one')")
    return [row[0] for row in found]
