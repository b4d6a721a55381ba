"""Claims beside each other: they take from slices, wait for nothing and never share a message."""

from __future__ import annotations

import itertools
import random
import time
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from tests.concurrency.sessions import (
    Background,
    Traffic,
    ack,
    call,
    claim,
    create,
    drain,
    forget,
    in_background,
    publish,
    publish_many,
    short_waits,
    token,
    until,
    value,
    values,
)
from tests.fixtures import clock
from tests.fixtures.maintenance import maintain
from tests.sqs_sql.caller import ARN, Sqs, redrive

if TYPE_CHECKING:
    from tests.fixtures.databases import Connect

    Session = psycopg.Connection[Any]

KINDS = ["standard", "fifo", "fair"]
FEW = pytest.mark.parametrize("kind", ["standard", "fifo"], indirect=True)
LEVELS = ["repeatable read", "serializable"]
CLAIMED = (
    "select message_id, delivery_attempts from penstock.consume_messages_batch('q', %s, %s, %s)"
)


@pytest.fixture(autouse=True)
def _short_waits(db: Session) -> None:
    """A claim that has to wait for the claim lock gets nothing, and soon; for a slice it fails."""
    short_waits(db)


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest, db: Session) -> str:
    create(db, request.param)
    return str(request.param)


@pytest.fixture
def holder(connect: Connect) -> Session:
    """A session whose transaction can hold the claim lock."""
    return connect(autocommit=False)


@pytest.fixture
def pair(connect: Connect) -> tuple[Session, Session]:
    """Two sessions with transactions.  A claim of theirs that waits for the other fails."""
    return (
        connect(autocommit=False, lock_timeout="2s"),
        connect(autocommit=False, lock_timeout="2s"),
    )


def hold(holder: Session, name: str = "q") -> None:
    holder.execute("select penstock_data.lock_queue(%s)", (name,))


def slices(db: Session) -> list[list[int]]:
    """What is in slices, from the oldest slice to the newest."""
    return values(
        db, "select message_ids from penstock_data.claims where token = '' order by first_id"
    )


def age(db: Session) -> None:
    """No claim has used a slice for a while."""
    db.execute(
        """
        update penstock_data.claims set claimed_at = claimed_at - interval '2 hours'
        where token = ''
        """
    )


def cut(conn: Session, size: int = 1, name: str = "q") -> list[int]:
    """Cut a slice that lasts for three more claims of this size.  Returns what was claimed then."""
    statement = """
        select message_id from penstock_data.claim_and_share(%s, %s, 600, %s, null, true)
    """
    with conn.transaction():
        hold(conn, name)
        ids = values(conn, statement, name, token(), size)
    forget(conn)
    return ids


def lease(conn: Session, message: int) -> None:
    """The slice that holds this message belongs to another session, however slow the machine is."""
    conn.execute(
        """
        update penstock_data.claims set claimed_at = claimed_at + interval '1 hour'
        where token = '' and %s = any (message_ids)
        """,
        (message,),
    )


def use(user: Session) -> None:
    """Lock all slices, as claims do that take from them, until the transaction ends."""
    user.execute("select from penstock_data.claims where token = '' for update")


def cut_two(db: Session, other: Session, size: int = 1) -> list[int]:
    """Cut two slices.  The first is in use while the second is cut.  Returns what was claimed."""
    taken = cut(db, size)
    use(other)
    # However slow the machine is: the second is cut a moment after the first, so it is longer.
    later = "update penstock_data.positions set sliced_at = penstock.clock() + interval '1 hour'"
    db.execute(later)
    taken += cut(db, size)
    other.rollback()
    age(db)
    return taken


def rest(conn: Session) -> list[int]:
    """All that is there, for a lone consumer that comes a while later."""
    age(conn)
    forget(conn)
    return drain(conn)


def attempts(conn: Session, size: int = 100, *, holder: str = "t") -> dict[int, int]:
    """The attempts of the messages that a claim gets."""
    return dict(conn.execute(CLAIMED, (holder, 30, size)).fetchall())


def soon(db: Session) -> Any:
    """In a minute, by the clock of the queues."""
    return value(db, "select penstock.clock() + interval '1 minute'")


def claim_one(conn: Session, holder: str = "t") -> list[int]:
    return values(conn, "select message_id from penstock.consume_message('q', %s, 30)", holder)


def test_a_claim_that_waits_twice_in_a_row_leaves_a_slice(
    db: Session, connect: Connect, holder: Session, kind: str
) -> None:
    call(db, "configure", "lock_wait", "60 seconds")
    expected = publish_many(db, 20)
    consumer = connect()
    found = []
    for _ in range(2):
        assert slices(db) == []
        hold(holder)
        waiting = in_background(db, consumer, lambda: claim(consumer, 2))
        holder.commit()
        found += waiting.result()
    assert found == expected[:4]
    assert slices(db) == [expected[4:10]]


def last_cut(db: Session, size: int, seconds: float) -> None:
    """Make it look as if the last cut took so many messages, so long ago."""
    db.execute(
        """
        update penstock_data.positions
        set slice_size = %s, sliced_at = penstock.clock() - %s * interval '1 second'
        """,
        (size, seconds),
    )


@pytest.mark.parametrize(
    ("before", "seconds", "expected"),
    [
        pytest.param(10, 3600, [4], id="a rate that is low"),
        pytest.param(100, -3600, [64, 64, 64, 8], id="twice as many at most"),
        pytest.param(960, -3600, [64] * 15, id="no more than can be stored quickly"),
    ],
)
def test_a_cut_has_what_all_consumers_take_in_a_moment(
    db: Session, kind: str, before: int, seconds: float, expected: list[int]
) -> None:
    ids = publish_many(db, 1000)
    last_cut(db, before, seconds)
    taken = cut(db)
    found = slices(db)
    assert [len(taken) + len(found[0]), *map(len, found[1:])] == expected
    assert [*taken, *itertools.chain(*found)] == ids[: sum(expected)]


def test_a_cut_makes_slices_for_others_that_they_take_at_once(
    db: Session, holder: Session, pair: tuple[Session, Session], kind: str
) -> None:
    ids = publish_many(db, 300)
    last_cut(db, 100, -3600)
    assert cut(db) == ids[:1]
    lease(db, ids[1])
    hold(holder)
    first, second = pair
    for session in pair:
        session.execute("select set_config('penstock.beside', 'q', false)")
    # The first slice belongs to the session that has cut it, the others to none.
    assert claim_one(first) == [ids[64]]
    assert claim_one(second) == [ids[128]]
    assert claim_one(first) == [ids[65]]


@FEW
def test_a_claim_that_waited_gives_the_claim_lock_back_when_there_is_a_slice(
    db: Session, connect: Connect, holder: Session, kind: str
) -> None:
    call(db, "configure", "lock_wait", "60 seconds")
    ids = publish_many(db, 300)
    last_cut(db, 100, -3600)
    consumers = [connect(autocommit=False), connect(autocommit=False)]
    hold(holder)
    waiting = [
        in_background(db, consumer, lambda consumer=consumer: claim_one(consumer))
        for consumer in consumers
    ]
    statement = "select message_id from penstock_data.claim_and_share('q', 't', 600, 1, null, true)"
    assert values(holder, statement) == ids[:1]
    lease(holder, ids[1])
    holder.commit()
    # Both come to an end, though the transaction of the first stays open.
    assert sorted(waiting[0].result() + waiting[1].result()) == [ids[64], ids[128]]
    with db.transaction():
        db.execute("select from penstock_data.claim_locks for update nowait")
    for consumer in consumers:
        consumer.rollback()
    assert rest(db) == ids[1:]


@pytest.mark.parametrize("size", [1, 2])
def test_a_claim_takes_from_a_slice_while_another_holds_the_claim_lock(
    db: Session, connect: Connect, holder: Session, kind: str, size: int
) -> None:
    expected = publish_many(db, 20)
    assert cut(db, 3) == expected[:3]
    hold(holder)
    consumer = connect()
    found = claim_one(consumer) if size == 1 else claim(consumer, size)
    assert found == expected[3 : 3 + size]
    found += claim_one(consumer) if size == 1 else claim(consumer, size)
    assert found == expected[3 : 3 + 2 * size]
    assert slices(db) == [expected[3 + 2 * size : 12]]
    holder.rollback()
    assert rest(db) == expected[3 + 2 * size :]


def test_a_claim_takes_from_a_slice_while_another_claim_stays_open(
    db: Session, connect: Connect, kind: str
) -> None:
    expected = publish_many(db, 10)
    cut(db)
    first, second = connect(autocommit=False), connect()
    # The first holds the claim lock and a slice, the second takes from another.
    other = connect(autocommit=False)
    use(other)
    assert claim(first, 1, holder="first") == [expected[4]]
    other.rollback()
    assert claim(second, 2, holder="second") == expected[1:3]
    first.rollback()
    assert rest(db) == expected[3:]


@FEW
def test_a_claim_that_finds_all_slices_in_use_waits_for_the_claim_lock(
    db: Session, connect: Connect, holder: Session, kind: str
) -> None:
    expected = publish_many(db, 10)
    cut(db)
    hold(holder)
    first, second = connect(autocommit=False), connect()
    codes: list[str | None] = []
    second.add_notice_handler(lambda notice: codes.append(notice.sqlstate))
    assert claim(first, 1) == expected[1:2]
    assert claim(second, 1) == []
    assert codes == ["PS018"]
    first.commit()
    assert claim(second, 2) == expected[2:4]


@pytest.mark.parametrize("whole", [True, False], ids=["transaction", "savepoint"])
def test_a_claim_that_is_rolled_back_leaves_the_slice_as_it_was(
    db: Session, connect: Connect, holder: Session, kind: str, whole: bool
) -> None:
    consumer = connect(autocommit=False)
    for size in (1, 2, 100):
        expected = publish_many(db, 12)
        cut(db)
        (sliced,) = slices(db)
        hold(holder)
        consumer.execute("savepoint before")
        assert claim(consumer, size) == sliced[:size]
        consumer.execute("rollback" if whole else "rollback to before")
        assert slices(db) == [sliced]
        assert attempts(consumer, size, holder="again") == dict.fromkeys(sliced[:size], 1)
        consumer.commit()
        assert ack(db, sliced[:size]) == []
        assert slices(db) == ([sliced[size:]] if size < 100 else [])
        holder.rollback()
        assert attempts(db) == dict.fromkeys(expected[1 + len(sliced[:size]) :], 1)


def test_two_claims_take_from_different_slices(
    db: Session, holder: Session, pair: tuple[Session, Session], kind: str
) -> None:
    expected = publish_many(db, 20)
    first, second = pair
    assert cut_two(db, holder) == [expected[0], expected[4]]
    hold(holder)
    assert claim(first, 2, holder="first") == expected[1:3]
    assert claim(second, 2, holder="second") == expected[5:7]
    assert claim(first, 2, holder="first") == expected[3:4]
    assert claim(second, 2, holder="second") == expected[7:9]
    first.commit()
    second.commit()
    assert slices(db) == [expected[9:12]]
    holder.rollback()
    assert rest(db) == expected[9:]


@FEW
def test_two_claims_take_from_the_same_slice_in_turns(
    db: Session, holder: Session, pair: tuple[Session, Session], kind: str
) -> None:
    expected = publish_many(db, 20)
    cut(db, 5)
    hold(holder)
    for number, session in enumerate([*pair, *pair]):
        assert claim(session, 2) == expected[5 + 2 * number :][:2]
        session.commit()


@pytest.mark.parametrize("single", [True, False], ids=["one", "batch"])
def test_a_claim_passes_over_the_slice_it_used_last_while_another_uses_it(
    db: Session, holder: Session, pair: tuple[Session, Session], kind: str, single: bool
) -> None:
    expected = publish_many(db, 20)
    first, second = pair
    cut_two(db, holder)
    hold(holder)

    def take(session: Session) -> list[int]:
        return claim_one(session) if single else claim(session, 1)

    for message in expected[1:3]:
        age(db)
        assert take(second) == [message]
        second.commit()
    assert take(first) == expected[3:4]
    assert take(second) == expected[5:6]
    first.rollback()
    second.commit()
    holder.rollback()
    assert rest(db) == [expected[3], *expected[6:]]


ENDS = ["commit", "rollback"]
# Two sessions claim and end, a third holds the claim lock for a while; the first claims first.
ORDERS = [
    order
    for order in sorted(set(itertools.permutations("aabbhh")))
    if order.index("a") < order.index("b")
]


@pytest.mark.parametrize("two", [False, True], ids=["one slice", "two slices"])
@pytest.mark.parametrize("kind", KINDS, indirect=True)
def test_every_order_of_two_claims_and_their_ends(
    db: Session,
    connect: Connect,
    holder: Session,
    pair: tuple[Session, Session],
    kind: str,
    two: bool,
) -> None:
    """Nothing is lost or given twice, and what is left comes in its order."""
    sessions = dict(zip("ab", pair, strict=True))
    lone = connect()
    # The other kinds take every fifth case: their claims take from slices in the same way.
    cases = [(order, ends) for order in ORDERS for ends in itertools.product(ENDS, repeat=2)]
    for order, ends in cases if kind == "standard" else cases[::5]:
        for session in sessions.values():
            forget(session)
            session.commit()
        expected = publish_many(db, 20 if two else 12)
        taken = cut_two(db, holder) if two else cut(db)
        age(db)
        kept: dict[str, list[int]] = {}
        begun: set[str] = set()
        for step in order:
            if step == "h":
                if step in begun:
                    holder.rollback()
                else:
                    holder.execute("select penstock_data.try_lock_queue('q')")
            elif step not in begun:
                found = attempts(sessions[step], 2, holder=step)
                assert set(found.values()) <= {1}
                kept[step] = list(found)
            elif ends["ab".index(step)] == "commit":
                sessions[step].commit()
            else:
                sessions[step].rollback()
                kept[step] = []
            begun.add(step)
        left = rest(lone)
        case = (order, ends, kept, left)
        assert left == sorted(left), case
        assert sorted(taken + kept["a"] + kept["b"] + left) == expected, case
        for step, ids in kept.items():
            assert sorted(ack(db, ids, holder=step)) == sorted(ids), case
        assert slices(db) == [], case


@pytest.mark.parametrize("free", [True, False], ids=["lock free", "lock held"])
def test_a_batch_is_filled_when_a_slice_ends_within_it(
    db: Session, connect: Connect, holder: Session, kind: str, free: bool
) -> None:
    expected = publish_many(db, 30)
    consumer = connect()
    assert cut_two(db, holder) == [expected[0], expected[4]]
    hold(holder)
    assert claim(consumer, 2) == expected[1:3]
    age(db)
    if free:
        holder.rollback()
    # One of the first slice, seven of the second, and of the log what is free.
    wanted = 12 if free else 8
    assert claim(consumer, wanted) == [expected[3], *expected[5 : 4 + wanted]]


@FEW
def test_no_token_has_the_messages_of_a_slice(db: Session, kind: str) -> None:
    expected = publish_many(db, 6)
    cut(db)
    assert slices(db) == [expected[1:4]]
    ids = expected[1:4]
    for message in ids:
        assert call(db, "ack_message", "q", message, "") is False
        assert call(db, "nack_message", "q", message, "", 0) is False
        assert call(db, "release_message", "q", message, "") is False
        assert call(db, "bury_message", "q", message, "") is False
        assert call(db, "extend_message_vt", "q", message, "", 60) is None
    for taken in (ids, ids[:1], ids[1:], ids[::-1], expected):
        assert ack(db, taken, holder="") == []
        assert call(db, "nack_messages", "q", taken, "") is None
        assert call(db, "fail_messages", "q", taken, "") is None
        assert call(db, "release_messages", "q", taken, "") is None
        assert call(db, "batch_extend_message_vt", "q", taken, "", 60) is None
        assert (
            value(db, "select penstock_data.ack_claims('q', %s, %s)", taken, [""] * len(taken))
            == []
        )
    assert slices(db) == [ids]
    assert claim_is_refused(db)
    assert attempts(db) == dict.fromkeys(expected[1:], 1)


def claim_is_refused(db: Session) -> bool:
    """A consumer needs a token that is not empty."""
    for statement in (
        "select penstock.consume_message('q', '', 30)",
        "select penstock.consume_messages_batch('q', '', 30, 10)",
    ):
        with pytest.raises(psycopg.Error) as caught:
            db.execute(statement.encode())
        assert caught.value.sqlstate == "PS005"
    return True


def test_claims_from_a_slice_expire_and_come_back(
    db: Session, connect: Connect, holder: Session, kind: str
) -> None:
    expected = publish_many(db, 6)
    cut(db)
    hold(holder)
    consumer = connect()
    assert dict(consumer.execute(CLAIMED, ("t", 5, 1)).fetchall()) == {expected[1]: 1}
    assert dict(consumer.execute(CLAIMED, ("t", 5, 2)).fetchall()) == dict.fromkeys(
        expected[2:4], 1
    )
    holder.rollback()
    clock.advance(db, 6)
    assert ack(consumer, expected[1:4]) == []
    assert attempts(db) == dict.fromkeys(expected[1:4], 2) | dict.fromkeys(expected[4:], 1)


def test_a_claim_with_the_lock_learns_when_claims_from_a_slice_expire(
    db: Session, connect: Connect, holder: Session, kind: str
) -> None:
    """The position of the queue knows nothing of claims that were made without the lock."""
    expected = publish_many(db, 6)
    cut(db)
    age(db)
    assert claim(db, seconds=600) == expected[1:]
    more = publish_many(db, 6)
    cut(db)
    hold(holder)
    assert claim(connect(), 3, seconds=1) == more[1:4]
    holder.rollback()
    found = attempts(db)
    clock.advance(db, 2)
    found |= attempts(db)
    assert found == dict.fromkeys(more[1:4], 2) | dict.fromkeys(more[4:], 1)


@FEW
def test_a_nacked_message_of_a_slice_counts_one_attempt(
    db: Session, connect: Connect, holder: Session, kind: str
) -> None:
    expected = publish_many(db, 4)
    cut(db)
    hold(holder)
    consumer = connect()
    assert claim(consumer, 2) == expected[1:3]
    assert call(consumer, "nack_message", "q", expected[1], "t", 0)
    assert call(consumer, "release_message", "q", expected[2], "t")
    holder.rollback()
    assert attempts(connect()) == {expected[1]: 2, expected[2]: 1, expected[3]: 1}


def test_retries_keep_their_attempts_and_histories_in_a_slice(
    db: Session, connect: Connect, holder: Session, kind: str
) -> None:
    expected = publish_many(db, 4)
    assert claim(db) == expected
    for message in expected:
        assert call(db, "nack_message", "q", message, "t", 0, "broken")
    assert cut(db) == expected[:1]
    statement = """
        select state, delivery_attempts, last_error, jsonb_array_length(history)
        from penstock.inspect_message('q', %s)
    """
    for message in expected[1:]:
        assert db.execute(statement, (message,)).fetchall() == [("waiting", 1, "broken", 1)]
    hold(holder)
    assert attempts(connect(), 2) == dict.fromkeys(expected[1:3], 2)
    for message in expected[1:3]:
        assert db.execute(statement, (message,)).fetchall() == [("claimed", 2, "broken", 1)]
    holder.rollback()
    clock.advance(db, 11)
    maintain(db)
    assert slices(db) == []
    assert db.execute(statement, expected[3:]).fetchall() == [("waiting", 1, "broken", 1)]
    assert attempts(db, holder="u") == {expected[3]: 2}


@pytest.mark.parametrize("way", ["expires", "retention"])
@pytest.mark.parametrize("kind", KINDS)
def test_messages_whose_time_is_over_lapse_in_a_slice(
    db: Session, connect: Connect, holder: Session, kind: str, way: str
) -> None:
    """A fifo queue goes on with what is behind them."""
    create(db, kind, **({"retention": "1 minute"} if way == "retention" else {}))
    consumer = connect()
    for single in (True, False):
        options = {"expires_at": soon(db)} if way == "expires" else {}
        ids = [publish(db, key=f"old-{single}-{n}", **options) for n in range(4)]
        behind = publish(db, key=f"old-{single}-2")
        cut(db)
        assert slices(db) == [ids[1:]]
        clock.advance(db, 50)
        fresh = [publish(db, key=f"new-{single}-{n}") for n in range(2)]
        clock.advance(db, 20)
        hold(holder)
        assert (claim_one(consumer) if single else claim(consumer, 3)) == []
        holder.rollback()
        found = claim(consumer, 10) + claim(db, 10)
        assert sorted(found) == (fresh if way == "retention" else [behind, *fresh])
        assert len(ack(db, found)) == len(found)
        assert {call(db, "message_state", "q", message) for message in ids[1:]} == {"done"}
        assert slices(db) == []


@FEW
def test_messages_that_lapse_leave_their_places_in_a_batch_to_others(
    db: Session, connect: Connect, holder: Session, kind: str
) -> None:
    options = {"expires_at": soon(db)}
    ids = [publish(db, key=f"k{n}", **options if n in (2, 5) else {}) for n in range(8)]
    assert cut(db, 2) == ids[:2]
    clock.advance(db, 70)
    hold(holder)
    consumer = connect()
    assert claim_one(consumer) == [ids[3]]
    assert claim(consumer, 3) == [ids[4], ids[6], ids[7]]
    assert slices(db) == []


@FEW
def test_a_dead_letter_that_was_requeued_has_a_time_of_its_own_in_a_slice(
    db: Session, connect: Connect, holder: Session, kind: str
) -> None:
    ids = [publish(db, key=f"k{number}", expires_at=soon(db)) for number in range(3)]
    assert claim(db) == ids
    for message in ids:
        assert call(db, "bury_message", "q", message, "t")
    clock.advance(db, 120)
    assert call(db, "requeue_dlq_messages", "q") == 3
    first, *others = cut(db) + slices(db)[0]
    assert sorted([first, *others]) == ids
    hold(holder)
    consumer = connect()
    assert claim(consumer, 1) == others[:1]
    assert claim(consumer, 2) == others[1:]


def test_no_message_of_a_slice_is_given_out_after_a_pause(
    db: Session, connect: Connect, holder: Session, kind: str
) -> None:
    expected = publish_many(db, 12)
    assert cut_two(db, holder) == [expected[0], expected[4]]
    consumer, other = connect(), connect()
    hold(holder)
    assert claim(consumer, 1) == expected[1:2]
    holder.rollback()
    assert call(db, "pause_queue", "q") is not None
    assert slices(db) == []
    assert [claim(consumer), claim_one(consumer), claim(other), claim_one(other)] == [[]] * 4
    assert call(db, "resume_queue", "q")
    assert attempts(other) == dict.fromkeys([*expected[2:4], *expected[5:]], 1)
    assert values(db, "select outcome from penstock_data.receipts") == []


@FEW
@pytest.mark.parametrize("end", ENDS)
def test_a_pause_waits_for_a_claim_that_takes_from_a_slice(
    db: Session, connect: Connect, kind: str, end: str
) -> None:
    expected = publish_many(db, 8)
    holder, consumer, pausing = connect(autocommit=False), connect(autocommit=False), connect()
    cut(db)
    hold(holder)
    assert claim(consumer, 2) == expected[1:3]
    holder.rollback()
    paused = in_background(db, pausing, lambda: call(pausing, "pause_queue", "q"))
    # It may hold the claim lock at times, and yet the transaction it waits for can go on.
    assert claim(consumer, 1) == expected[3:4]
    consumer.execute(end.encode())
    assert paused.result() is not None
    assert claim(consumer) == []
    assert slices(db) == []
    consumer.commit()
    assert call(db, "resume_queue", "q")
    left = rest(db)
    assert sorted(left) == expected[4 if end == "commit" else 1 :]
    assert left == sorted(left) or kind != "standard"


@FEW
@pytest.mark.parametrize("end", ENDS)
def test_a_purge_drops_the_messages_of_slices(
    db: Session, connect: Connect, holder: Session, kind: str, end: str
) -> None:
    publish_many(db, 12)
    cut(db)
    consumer, purging = connect(autocommit=False), connect()
    hold(holder)
    assert len(claim(consumer, 2)) == 2
    holder.rollback()
    purged = in_background(db, purging, lambda: call(purging, "purge_queue", "q"))
    consumer.execute(end.encode())
    assert purged.result() == 12
    assert slices(db) == []
    assert claim(consumer) == []
    consumer.commit()
    after = publish_many(db, 3)
    assert claim(db) == after


@FEW
def test_a_queue_that_is_deleted_and_made_again_has_no_old_slices(
    db: Session, connect: Connect, holder: Session, kind: str
) -> None:
    publish_many(db, 8)
    cut(db)
    consumer = connect()
    hold(holder)
    assert claim(consumer, 1)
    holder.rollback()
    call(db, "delete_queue", "q")
    assert slices(db) == []
    with pytest.raises(psycopg.Error) as caught:
        claim(consumer)
    assert caught.value.sqlstate == "PS002"
    create(db, kind)
    after = publish_many(db, 3)
    assert claim(consumer) == after


@pytest.mark.parametrize("end", ENDS)
def test_a_queue_becomes_fair_while_it_has_slices(
    db: Session, connect: Connect, holder: Session, end: str
) -> None:
    create(db)
    expected = publish_many(db, 16)
    taken = cut_two(db, holder)
    hold(holder)
    consumer = connect(autocommit=False)
    found = claim(consumer, 2)
    holder.rollback()
    db.execute("select penstock_data.make_fair('q')")
    expected += publish_many(db, 4)
    consumer.execute(end.encode())
    kept = found if end == "commit" else []
    left = rest(db)
    assert sorted(taken + kept + left) == expected
    assert left == sorted(left)
    assert ack(db, kept) == kept
    assert slices(db) == []


@pytest.mark.parametrize("kind", KINDS, indirect=True)
@pytest.mark.parametrize("level", LEVELS)
def test_an_old_snapshot_gets_the_right_messages_of_a_slice_or_an_error(
    db: Session, connect: Connect, holder: Session, kind: str, level: str
) -> None:
    caller = connect(isolation=level, autocommit=False)
    other = connect()

    # What other sessions do between the snapshot and the claim.
    def none() -> list[int]:
        return []

    def beside() -> list[int]:
        hold(holder)
        found = claim(other, 1)
        holder.rollback()
        return found

    def whole() -> list[int]:
        hold(holder)
        found = claim(other, 3)
        holder.rollback()
        return found

    def locked() -> list[int]:
        age(db)
        return claim(other, 1)

    def paused() -> list[int]:
        call(db, "pause_queue", "q")
        call(db, "resume_queue", "q")
        return []

    for meanwhile in (none, beside, whole, locked, paused):
        forget(other)
        forget(caller)
        caller.commit()
        expected = publish_many(db, 8)
        found = cut(db)
        caller.execute("select 1")
        found += meanwhile()
        try:
            claimed = claim(caller, 2, holder="caller")
            caller.commit()
            assert claimed
        except psycopg.errors.SerializationFailure:
            assert meanwhile is not none
            caller.rollback()
            claimed = claim(caller, 2, holder="caller")
            caller.commit()
        found += claimed
        assert sorted(found + rest(db)) == expected, meanwhile.__name__


@FEW
@pytest.mark.parametrize("level", LEVELS)
def test_an_old_snapshot_gets_an_error_when_messages_of_a_slice_were_moved(
    db: Session, connect: Connect, kind: str, level: str
) -> None:
    """Their segment was emptied after the snapshot, so it finds them nowhere."""
    expected = sliced_only(db, connect)
    caller = connect(isolation=level, autocommit=False)
    caller.execute("select 1")
    assert maintain(db)["segments emptied"] > 0
    with pytest.raises(psycopg.errors.SerializationFailure):
        claim(caller)
    caller.rollback()
    assert claim(caller) == expected


def sliced_only(db: Session, connect: Connect) -> list[int]:
    """Messages that are in a slice, while the rest of the log is done.  Segments are small."""
    call(db, "configure", "segment_bytes", "1")
    messages = publish_many(db, 8)
    assert cut(db) == messages[:1]
    cutter = value(db, "select token from penstock_data.claims where token <> ''")
    assert ack(db, messages[:1], holder=cutter) == messages[:1]
    user = connect(autocommit=False)
    use(user)
    assert drain(db) == messages[4:]
    user.rollback()
    assert slices(db) == [messages[1:4]]
    return messages[1:4]


def test_a_segment_is_emptied_while_messages_of_it_are_in_a_slice(
    db: Session, connect: Connect, holder: Session, kind: str
) -> None:
    sliced = sliced_only(db, connect)
    hold(holder)
    consumer = connect(autocommit=False)
    assert claim(consumer, 1) == sliced[:1]
    consumer.rollback()
    assert maintain(db)["segments emptied"] > 0
    assert slices(db) == [sliced]
    assert attempts(consumer, 2) == dict.fromkeys(sliced[:2], 1)
    consumer.commit()
    holder.rollback()
    assert rest(db) == sliced[2:]


@FEW
def test_two_old_snapshots_never_share_a_message(db: Session, connect: Connect, kind: str) -> None:
    expected = publish_many(db, 4)
    found = cut(db)
    callers = [connect(isolation=level, autocommit=False) for level in LEVELS]
    for caller in callers:
        caller.execute("select 1")
    for caller in callers:
        try:
            found += claim(caller, 1)
            caller.commit()
        except psycopg.errors.SerializationFailure:
            caller.rollback()
    assert found == expected[:2]
    assert sorted(found + rest(db)) == expected


def test_maintenance_puts_slices_back_that_no_claim_uses(
    db: Session, connect: Connect, holder: Session, kind: str
) -> None:
    expected = publish_many(db, 20)
    taken = cut_two(db, holder)
    db.execute("update penstock_data.claims set claimed_at = penstock.clock() where token = ''")
    maintain(db)
    assert slices(db) == [expected[1:4], expected[5:12]]
    db.execute(
        """
        update penstock_data.claims set claimed_at = penstock.clock() - interval '11 seconds'
        where token = '' and message_ids[1] = %s
        """,
        (expected[1],),
    )
    maintain(db)
    assert slices(db) == [expected[5:12]]
    assert value(db, "select count(*) from penstock_data.receipts") == 0
    age(db)
    # A slice in use stays.
    hold(holder)
    consumer = connect(autocommit=False)
    assert claim(consumer, 1) == expected[5:6]
    maintain(db)
    consumer.rollback()
    assert slices(db) == [expected[5:12]]
    maintain(db)
    assert slices(db) == []
    assert value(db, "select count(*) from penstock_data.receipts") == 0
    holder.rollback()
    waiting = sorted(set(expected) - set(taken))
    assert attempts(db) == dict.fromkeys(waiting, 1)
    assert value(db, "select count(*) from penstock_data.claims where attempts @> '{2}'") == 0


@pytest.mark.parametrize("way", ["maintain", "pause"])
def test_a_slice_that_is_put_back_uses_up_no_attempt(db: Session, way: str) -> None:
    """Neither does it make a message with one attempt a dead letter."""
    create(db, max_delivery_attempts=1)
    expected = publish_many(db, 4)
    for _ in range(3):
        (taken,) = cut(db)
        assert taken == expected.pop(0)
        if way == "maintain":
            age(db)
            maintain(db)
        else:
            call(db, "pause_queue", "q")
            call(db, "resume_queue", "q")
        assert slices(db) == []
    assert value(db, "select count(*) from penstock_data.dead_letters") == 0
    assert attempts(db) == dict.fromkeys(expected, 1)


def test_priorities_and_retries_come_ahead_of_a_slice(db: Session, connect: Connect) -> None:
    create(db)
    retried, *expected = publish_many(db, 8)
    assert claim(db, 1) == [retried]
    assert cut(db) == expected[:1]
    age(db)
    urgent, slow = publish(db, priority=5), publish(db, priority=-5)
    assert call(db, "nack_message", "q", retried, "t", 0)
    assert claim(connect(), 1) == [urgent]
    age(db)
    assert claim(connect(), 2) == [retried, expected[1]]
    age(db)
    assert claim(connect(), 10) == [*expected[2:], slow]


def test_messages_of_slices_are_waiting(db: Session, kind: str) -> None:
    expected = publish_many(db, 10)
    (taken,) = cut(db)
    sliced = expected[1:4]
    assert slices(db) == [sliced]
    statement = """
        select waiting, scheduled, claimed, blocked, delayed, retrying
        from penstock.queue_overview()
    """
    assert db.execute(statement).fetchone() == (9, 0, 1, 0, 0, 0)
    statement = """
        select pending_count, processing_count, waiting_count, blocked_count, total_count
        from penstock.get_queue_statistics('q')
    """
    assert db.execute(statement).fetchone() == (9, 1, 9, 0, 10)
    for message in sliced:
        assert call(db, "message_state", "q", message) == "waiting"
        row = db.execute(
            "select state, delivery_attempts, token from penstock.inspect_message('q', %s)",
            (message,),
        ).fetchall()
        assert row == [("waiting", 0, None)]
    found = "select message_id from penstock.find_messages('q', %s)"
    assert values(db, found, "waiting") == expected[1:]
    assert values(db, found, "claimed") == [taken]
    browsed = dict(db.execute("select message_id, state from penstock.browse_messages('q')"))
    assert browsed == dict.fromkeys(expected, "waiting") | {taken: "claimed"}
    consumers = "select claimed, message_ids from penstock.list_consumers()"
    assert db.execute(consumers).fetchall() == [(1, [taken])]
    assert values(db, "select message_count from penstock.key_counts('q')") == [1] * 10


def test_a_queue_whose_messages_are_all_in_slices_is_not_empty(
    db: Session, connect: Connect, kind: str
) -> None:
    sliced = sliced_only(db, connect)
    due = "select penstock.get_next_visible_time('q') <= penstock.clock()"
    assert value(db, due) is True
    assert value(db, "select waiting from penstock.queue_overview()") == 3
    assert value(db, "select pending_count from penstock.get_queue_statistics('q')") == 3
    counts = """
        select pgqs_data.counts(q) ->> %s
        from penstock_data.queues e, jsonb_populate_record(null::pgqs_data.queue, to_jsonb(e)) q
    """
    assert value(db, counts, "ApproximateNumberOfMessages") == "3"
    assert value(db, counts, "ApproximateNumberOfMessagesNotVisible") == "0"
    assert rest(db) == sliced
    assert value(db, due) is None


@FEW
@pytest.mark.parametrize("single", [True, False], ids=["one", "batch"])
def test_a_claim_says_that_all_that_waits_is_in_use(
    db: Session, connect: Connect, kind: str, single: bool
) -> None:
    """So it is told apart from a claim on an empty queue, although it had the claim lock."""
    sliced = sliced_only(db, connect)
    user, consumer = connect(autocommit=False), connect()
    use(user)
    codes: list[str | None] = []
    consumer.add_notice_handler(lambda notice: codes.append(notice.sqlstate))
    # The second claim of a session may take another way than the first.
    for _ in range(2):
        assert (claim_one(consumer) if single else claim(consumer)) == []
    assert codes == ["PS018"] * 2
    user.rollback()
    assert claim(consumer, 3) == sliced
    assert (claim_one(consumer) if single else claim(consumer)) == []
    assert codes == ["PS018"] * 2


@FEW
def test_moving_out_of_a_queue_whose_slices_are_in_use_is_refused(
    db: Session, connect: Connect, kind: str
) -> None:
    """No rows would mean that none is left."""
    sliced_only(db, connect)
    call(db, "create_topic", "other")
    user = connect(autocommit=False)
    use(user)
    with pytest.raises(psycopg.DatabaseError, match="busy") as refusal:
        call(db, "move_messages", "q", "other")
    assert refusal.value.sqlstate == "PS018"
    user.rollback()
    assert call(db, "move_messages", "q", "other") == 3
    assert call(db, "move_messages", "q", "other") == 0


def test_a_move_task_goes_on_when_slices_are_no_longer_in_use(
    db: Session, connect: Connect
) -> None:
    sqs = Sqs(db)
    sqs.create("dead")
    sqs.create("q", RedrivePolicy=redrive("dead", 1))
    for body in "abcd":
        sqs.send("q", body)
        assert sqs.bodies("q", 1, VisibilityTimeout=0) == [body]
        assert sqs.receive("q") == []
    name = value(db, "select name from penstock_data.queues where name like '%%dead'")
    assert len(cut(db, name=name)) == 1
    sqs("StartMessageMoveTask", SourceArn=ARN + "dead")
    user = connect(autocommit=False)
    use(user)

    def status() -> str:
        (task,) = sqs("ListMessageMoveTasks", SourceArn=ARN + "dead")["Results"]
        return str(task["Status"])

    assert value(db, "select pgqs.run_move_tasks()") == 0
    assert status() == "RUNNING"
    user.rollback()
    assert value(db, "select pgqs.run_move_tasks()") == 3
    assert status() == "COMPLETED"


def test_a_rebase_puts_slices_back(db: Session, connect: Connect, kind: str) -> None:
    """Numbers of slices lie far above those of messages, and must not be taken for them."""
    expected = publish_many(db, 10)
    cut(db)
    # As after logical replication, which leaves sequences where they began.
    db.execute("delete from penstock_data.origin")
    db.execute("select setval('penstock_data.slice', 1, false)")
    there = connect()
    assert call(there, "rebase") == 10
    assert slices(there) == []
    assert value(there, "select count(*) from penstock_data.receipts") == 0
    message = publish(there, key="after")
    assert expected[-1] < message < expected[-1] + 1000
    taken = cut(there)
    assert sorted([*taken, *rest(there)]) == [*expected[1:], message]


@pytest.fixture
def received(db: Session) -> tuple[Sqs, dict[str, Any]]:
    """Messages by their bodies.  They were received once and are in a slice, but for the first."""
    sqs = Sqs(db)
    sqs.create("q")
    for body in "abcd":
        sqs.send("q", body)
    messages = {one["Body"]: one for one in sqs.receive("q", 4, VisibilityTimeout=1)}
    clock.advance(db, 2)
    maintain(db)
    name = value(db, "select name from penstock_data.queues where name like '%%q'")
    assert len(cut(db, name=name)) == 1
    assert [len(ids) for ids in slices(db)] == [3]
    return sqs, messages


def test_an_old_handle_deletes_a_message_of_a_slice(
    db: Session, received: tuple[Sqs, dict[str, Any]]
) -> None:
    sqs, messages = received
    sqs.delete(messages["c"])
    assert [len(ids) for ids in slices(db)] == [2]
    age(db)
    assert sqs.bodies("q", 10) == ["b", "d"]
    sqs.delete(messages["c"])


def test_an_old_handle_claims_a_message_of_a_slice_again(
    db: Session, received: tuple[Sqs, dict[str, Any]]
) -> None:
    sqs, messages = received
    sqs.hide(messages["c"], 0)
    assert [len(ids) for ids in slices(db)] == [3]
    sqs.hide(messages["c"], 60)
    assert [len(ids) for ids in slices(db)] == [2]
    age(db)
    assert sqs.bodies("q", 10, VisibilityTimeout=600) == ["b", "d"]
    clock.advance(db, 70)
    assert sqs.bodies("q", 10) == ["c"]


@FEW
def test_a_reserved_queue_keeps_its_slices_from_other_roles(
    db: Session, connect: Connect, holder: Session, kind: str
) -> None:
    expected = publish_many(db, 4)
    cut(db)
    db.execute("create role slice_user in role penstock_consumer")
    db.execute("create role slice_thief in role penstock_consumer")
    try:
        call(db, "grant_queue", "q", "slice_user")
        hold(holder)
        with pytest.raises(psycopg.DatabaseError) as refusal:
            claim(connect(role="slice_thief"), 1)
        assert refusal.value.sqlstate == "PS009"
        assert claim(connect(role="slice_user"), 1) == expected[1:2]
    finally:
        holder.rollback()
        call(db, "delete_queue", "q")
        db.execute("drop role slice_user, slice_thief")


class Mixed(Traffic):
    """Claims of several sizes, some of them rolled back."""

    def publish(self, session: Session, seed: int) -> None:
        chance = random.Random(seed)
        while self.goes_on:
            ids = publish_many(session, chance.randint(1, 40))
            if chance.random() < 0.2:
                ids.append(publish(session, priority=chance.choice([-1, 5]), key=f"s{seed}"))
            if chance.random() < 0.1:
                session.rollback()
                continue
            session.commit()
            with self.lock:
                self.published += ids

    def consume(self, session: Session, seed: int) -> None:
        chance = random.Random(seed)
        holder = f"consumer-{seed}"
        while self.goes_on:
            ids: list[int] = []
            for number in range(chance.choice([1, 1, 1, 3])):
                session.execute(f"savepoint s{number}".encode())
                size = chance.choice([1, 1, 4, 15])
                found = (
                    claim_one(session, holder) if size == 1 else claim(session, size, holder=holder)
                )
                if chance.random() < 0.15:
                    session.execute(f"rollback to s{number}".encode())
                else:
                    ids += found
            if chance.random() < 0.1:
                session.rollback()
                continue
            session.commit()
            if ids and chance.random() < 0.1:
                session.execute("select penstock.release_messages('q', %s, %s)", (ids, holder))
                session.commit()
                continue
            done = ack(session, ids, holder=holder)
            if chance.random() < 0.1:
                session.rollback()
                done = ack(session, ids, holder=holder)
            session.commit()
            assert sorted(done) == sorted(ids)
            with self.lock:
                self.delivered += done


def test_traffic_of_claims_beside_each_other(db: Session, connect: Connect, kind: str) -> None:
    """Counted at the end: messages lost, not published by anyone, and delivered twice."""
    # Shorter than deadlock_timeout: a session that waits for the lock, rolls back to a savepoint
    # and waits again is in a deadlock with those that came to wait for it between.
    call(db, "configure", "lock_wait", "300 milliseconds")
    call(db, "configure", "segment_bytes", "65536")
    traffic = Mixed(time.monotonic() + 1)
    running = [Background(traffic.publish, connect(autocommit=False), n) for n in range(2)]
    running += [Background(traffic.consume, connect(autocommit=False), 10 + n) for n in range(6)]
    sliced = "select is_called from penstock_data.slice"
    for number in itertools.count():
        if not traffic.goes_on:
            break
        maintain(db)
        if number % 4 == 3:
            call(db, "pause_queue", "q")
            call(db, "resume_queue", "q")
        if number < 200 and not value(db, sliced):
            traffic.ends_at = max(traffic.ends_at, time.monotonic() + 1)
    until(lambda: not any(one.running for one in running))
    for one in running:
        one.result()
    # In a fair queue a claim reads far ahead, so others rather go ahead of it than wait.
    assert kind == "fair" or value(db, sliced), "there was no slice"
    traffic.delivered += rest(db)

    assert traffic.faults == (0, 0, 0)
    assert len(set(traffic.delivered)) > 100
    assert slices(db) == []
