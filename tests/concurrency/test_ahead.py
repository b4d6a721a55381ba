"""Claims ahead of the position: a claim that stays open stops no other, and none shares a message.

`first` is a session whose claim stays open, so that it holds the claim lock.  The claims of the
others go ahead of the position.
"""

from __future__ import annotations

import itertools
import random
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from tests.concurrency.sessions import (
    PATIENCE_SECONDS,
    Background,
    Traffic,
    ack,
    call,
    claim,
    create,
    drain,
    forget,
    in_background,
    pid,
    publish,
    publish_many,
    short_waits,
    until,
    value,
    values,
    waits,
)
from tests.fixtures import clock
from tests.fixtures.maintenance import maintain
from tests.sqs_sql.caller import Sqs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tests.fixtures.databases import Connect

    Session = psycopg.Connection[Any]

KINDS = ["standard", "fifo", "filtered"]
ENDS = ["commit", "rollback"]
LEVELS = ["repeatable read", "serializable"]
LONG = 600
SLOTS = 16_384
# A claim that had to wait: it leaves a slice.
SHARE = "select message_id from penstock_data.claim_and_share('q', 't', 600, 1, null, true)"


@pytest.fixture(autouse=True)
def _short_waits(db: Session) -> None:
    """Claims go ahead soon.  A claim that waits for another one fails."""
    short_waits(db)


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest, db: Session) -> str:
    create(db, request.param)
    return str(request.param)


@pytest.fixture
def first(connect: Connect) -> Session:
    return connect(autocommit=False)


@pytest.fixture
def second(connect: Connect) -> Session:
    return connect(autocommit=False)


@pytest.fixture
def third(connect: Connect) -> Session:
    return connect(autocommit=False)


def get(conn: Session, size: int = 1, holder: str = "t", seconds: int = LONG) -> list[int]:
    """What a claim gets, by the call for one message or the one for many."""
    if size == 1:
        statement = "select message_id from penstock.consume_message('q', %s, %s)"
        return values(conn, statement, holder, seconds)
    return claim(conn, size, holder=holder, seconds=seconds)


def attempts(conn: Session, size: int = 100, holder: str = "t") -> dict[int, int]:
    """The attempts of the messages that a claim gets."""
    statement = """
        select message_id, delivery_attempts from penstock.consume_messages_batch('q', %s, %s, %s)
    """
    return dict(conn.execute(statement, (holder, LONG, size)).fetchall())


def notes(db: Session) -> list[int]:
    """Messages that are claimed ahead of the position."""
    return values(db, "select message_id from penstock_data.claimed_ahead order by message_id")


def calm(db: Session) -> None:
    """A while later the claims of a queue that is not direct read little of the log again, and an
    open one has locked no more than it gives out."""
    clock.advance(db, 2)


def rest(db: Session, conn: Session | None = None) -> list[int]:
    """All that is there, for a lone consumer, in the order of delivery; then nothing is noted."""
    conn = conn or db
    forget(conn)
    found = drain(conn)
    # What a claim passed over while another had it locked is looked for a moment later.
    clock.advance(db, 1)
    found += drain(conn)
    assert notes(db) == []
    return found


def publish_keys(conn: Session, keys: Iterable[str]) -> list[int]:
    names = list(keys)
    statement = """
        select penstock.publish_messages('q', %s::jsonb[], headers => array[%s::jsonb], keys => %s)
    """
    return values(conn, statement, ["{}"] * len(names), '{"for": "me"}', names)


def busy(conn: Session) -> list[str | None]:
    """The codes of the notices that this session gets from now on."""
    codes: list[str | None] = []
    conn.add_notice_handler(lambda notice: codes.append(notice.sqlstate))
    return codes


# Claims that stay open.


@pytest.mark.parametrize("size", [1, 3])
def test_a_claim_that_stays_open_stops_no_other(
    db: Session, first: Session, second: Session, third: Session, kind: str, size: int
) -> None:
    ids = publish_many(db, 20)
    assert get(first, size) == ids[:size]
    assert get(second, size, "second") == ids[size : 2 * size]
    assert get(third, size, "third") == ids[2 * size : 3 * size]
    second.commit()
    assert get(second, size, "second") == ids[3 * size : 4 * size]
    for session in (first, second, third):
        session.commit()
    assert rest(db) == ids[4 * size :]
    assert ack(db, ids[:size]) == ids[:size]
    assert ack(db, ids[2 * size : 3 * size], holder="third") == ids[2 * size : 3 * size]


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("kind", [*KINDS, "fair"], indirect=True)
def test_many_claims_stay_open_at_the_same_time(
    db: Session, connect: Connect, kind: str, end: str
) -> None:
    # What an open claim of a fair queue has read stays locked: a thousand messages.
    ids = publish_many(db, 1030 if kind == "fair" else 30)
    sessions = [connect(autocommit=False) for _ in range(6)]
    found = [get(session, 2, f"holder-{n}") for n, session in enumerate(sessions)]
    assert [len(each) for each in found] == [2] * 6
    assert len({message for each in found for message in each}) == 12
    for session in sessions[::2]:
        session.commit()
    for session in sessions[1::2]:
        session.execute(end.encode())
    kept = found if end == "commit" else found[::2]
    left = rest(db)
    assert sorted(itertools.chain(left, *kept)) == ids
    assert left == sorted(left)


@pytest.mark.parametrize("kind", [*KINDS, "fair"], indirect=True)
def test_claims_go_ahead_of_a_large_claim_that_stays_open(
    db: Session, first: Session, second: Session, third: Session, kind: str
) -> None:
    ids = publish_many(db, 4000)
    assert get(first, 1200) == ids[:1200]
    # A queue that is not direct reads a thousand at a time, and has locked them.
    if kind != "standard":
        ids = ids[:1200] + ids[2000:]
    assert get(second, 300, "second") == ids[1200:1500]
    assert get(third, 10, "third") == ids[1500:1510]
    second.commit()
    first.rollback()
    third.commit()
    assert len(rest(db)) == 4000 - 310


ORDERS = [
    order
    for order in sorted(set(itertools.permutations("aabbcc")))
    if order[0] == "a" and order.index("b") < order.index("c")
]


@pytest.mark.parametrize("size", [1, 2])
def test_every_order_of_three_claims_and_their_ends(
    db: Session,
    connect: Connect,
    first: Session,
    second: Session,
    third: Session,
    kind: str,
    size: int,
) -> None:
    """Nothing is lost or given twice, and what is left comes in its order."""
    sessions = {"a": first, "b": second, "c": third}
    lone = connect()
    cases = [(order, ends) for order in ORDERS for ends in itertools.product(ENDS, repeat=3)]
    for order, ends in cases[:: 2 if kind == "standard" else 5]:
        for session in sessions.values():
            forget(session)
            session.commit()
        calm(db)
        expected = publish_many(db, 8)
        kept: dict[str, list[int]] = {}
        for step in order:
            if step not in kept:
                kept[step] = get(sessions[step], size, step)
                assert len(kept[step]) == size, (order, ends, kept)
            elif ends["abc".index(step)] == "commit":
                sessions[step].commit()
            else:
                sessions[step].rollback()
                kept[step] = []
        forget(lone)
        left = drain(lone)
        case = (order, ends, kept, left)
        assert left == sorted(left), case
        assert sorted([*itertools.chain(*kept.values()), *left]) == expected, case
        for step, ids in kept.items():
            assert sorted(ack(db, ids, holder=step)) == sorted(ids), case
        assert notes(db) == [], case


def test_every_order_of_claims_and_their_ends_keeps_the_order_of_a_key(
    db: Session, connect: Connect, first: Session, second: Session, third: Session
) -> None:
    """Two messages of a key are never under way at the same time, in any order of commits."""
    create(db, "fifo")
    sessions = {"a": first, "b": second, "c": third}
    lone = connect()
    cases = [(order, ends) for order in ORDERS for ends in itertools.product(ENDS, repeat=3)]
    for order, ends in cases[::3]:
        for session in sessions.values():
            forget(session)
            session.commit()
        calm(db)
        ids = publish_keys(db, "xyxzxyz")
        key = dict(zip(ids, "xyxzxyz", strict=True))
        kept: dict[str, list[int]] = {}
        done: list[int] = []
        for step in order:
            if step not in kept:
                kept[step] = get(sessions[step], 2, step)
                held = [key[message] for held in kept.values() for message in held]
                assert len(set(held)) == len(held), (order, ends, kept)
            elif ends["abc".index(step)] == "commit":
                # In the same transaction, before or after the position has passed it.
                assert ack(sessions[step], kept[step], holder=step) == kept[step]
                sessions[step].commit()
                done += kept[step]
                kept[step] = []
            else:
                sessions[step].rollback()
                kept[step] = []
        forget(lone)
        done += drain(lone)
        case = (order, ends, kept, done)
        assert sorted(done) == ids, case
        for name in "xyz":
            mine = [message for message in done if key[message] == name]
            assert mine == sorted(mine), case
        assert notes(db) == [], case


# Between the look of a claim and its lock.

SLOW = """
    create or replace function penstock_data.message_slot(p_queue_id bigint, p_message_id bigint)
    returns int language plpgsql immutable as $$
    begin
        if current_setting('test.slow', true) = 'on' then
            perform pg_advisory_lock_shared(1), pg_advisory_unlock_shared(1);
        end if;
        return (p_message_id + p_queue_id % 4099 * 4096 & 16383)::int;
    end
    $$
"""


@pytest.fixture
def slow(db: Session, connect: Connect) -> Session:
    """Its claims wait before they lock a message, until the session `db` has let go."""
    db.execute(SLOW)
    db.execute("select pg_advisory_lock(1)")
    session = connect()
    session.execute("set test.slow = 'on'")
    return session


def let_go(db: Session) -> None:
    db.execute("select pg_advisory_unlock(1)")


@pytest.mark.parametrize("size", [1, 2])
def test_a_claim_ahead_looks_again_when_it_has_the_lock(
    db: Session, connect: Connect, first: Session, slow: Session, kind: str, size: int
) -> None:
    ids = publish_many(db, 10)
    other = connect()
    assert get(first, size, "first") == ids[:size]
    claiming = in_background(db, slow, lambda: get(slow, size, "slow"))
    # Claimed ahead by another one; then the position passes both, and the note is gone.
    found = get(other, size, "other")
    assert found == ids[size : 2 * size]
    first.commit()
    found += get(other, size, "other")
    assert notes(db) == []
    let_go(db)
    found += claiming.result()
    assert sorted(found + rest(db, other)) == ids[size:]


@pytest.mark.parametrize("care", [False, True], ids=["fast path", "care"])
@pytest.mark.parametrize("size", [1, 2])
def test_a_claim_that_moves_the_position_looks_again_when_it_has_the_lock(
    db: Session, connect: Connect, slow: Session, kind: str, size: int, care: bool
) -> None:
    ids = publish_many(db, 10)
    if care and kind == "standard":
        ids.append(publish(db, priority=-5))
    other = connect()
    claiming = in_background(db, slow, lambda: get(slow, size, "slow"))
    found = get(other, size, "other")
    assert found == ids[:size]
    let_go(db)
    found += claiming.result()
    assert sorted(found + rest(db, other)) == ids


def test_two_messages_of_a_key_are_not_claimed_between_a_look_and_a_lock(
    db: Session, connect: Connect, first: Session, slow: Session
) -> None:
    create(db, "fifo")
    ids = publish_keys(db, "xyyz")
    other = connect()
    assert get(first, 1, "first") == ids[:1]
    claiming = in_background(db, slow, lambda: get(slow, 2, "slow"))
    assert get(other, 1, "other") == ids[1:2]
    first.commit()
    let_go(db)
    found = claiming.result()
    assert not {*found} & {*ids[:3]}
    assert ack(db, ids[1:2], holder="other") == ids[1:2]
    assert sorted(found + rest(db)) == ids[2:]


# fifo: one message of a key at a time, in order.


@pytest.mark.parametrize("size", [1, 10])
def test_a_second_message_of_a_key_is_not_claimed_ahead(
    db: Session, connect: Connect, first: Session, size: int
) -> None:
    create(db, "fifo")
    ids = publish_keys(db, "xyxyzx")
    x, y, z = (ids[0], ids[2], ids[5]), (ids[1], ids[3]), ids[4]
    assert get(first) == [x[0]]
    consumer, other = connect(), connect()
    found = get(consumer, size, "consumer")
    found += get(consumer, size, "consumer") if size == 1 else []
    assert found == [y[0], z]
    assert get(other, size, "other") == []
    # Acked before the position has come there: the note stays until then.
    assert ack(consumer, [y[0]], holder="consumer") == [y[0]]
    assert get(other, size, "other") == []
    first.commit()
    assert get(other, 10, "other") == [y[1]]
    assert get(other, 10, "other") == []
    assert ack(db, [x[0]]) == [x[0]]
    assert get(other, 10, "other") == [x[1]]
    assert ack(other, [x[1]], holder="other") == [x[1]]
    assert rest(db) == [x[2]]


@pytest.mark.parametrize("way", ["ack", "nack", "release", "bury"])
def test_a_key_goes_on_when_its_message_that_was_claimed_ahead_has_ended(
    db: Session, connect: Connect, first: Session, way: str
) -> None:
    create(db, "fifo")
    for passed in (False, True):
        calm(db)
        ids = publish_keys(db, [f"x{passed}", f"y{passed}", f"y{passed}", f"y{passed}"])
        consumer = connect()
        assert get(first) == ids[:1]
        assert get(consumer) == ids[1:2]
        if passed:
            first.commit()
            assert get(db, 10) == []
        end(consumer, way, ids[1])
        if way in ("nack", "release"):
            assert get(consumer) == ids[1:2]
            assert get(consumer) == []
            assert ack(consumer, ids[1:2]) == ids[1:2]
        first.commit()
        assert rest(db) == ids[2:]
        assert ack(db, ids[:1]) == ids[:1]


def end(conn: Session, way: str, message: int, holder: str = "t") -> None:
    more = {"nack": (0,)}.get(way, ())
    assert call(conn, f"{way}_message", "q", message, holder, *more)


def test_an_earlier_message_of_a_key_lies_further_on_by_transaction_number(
    db: Session, connect: Connect, first: Session
) -> None:
    """Its transaction began later than that of the next one, which has many messages."""
    create(db, "fifo")
    assert get(db) == []
    early = connect(autocommit=False)
    early.execute("select pg_current_xact_id()")
    message = publish(db, key="k")
    later = publish_keys(early, ["k", *["other"] * 300])
    early.commit()
    assert get(first) == [message]
    assert get(connect()) == [later[1]]
    first.rollback()
    assert rest(db)[:2] == [message, later[0]]


def test_an_earlier_message_of_a_key_is_the_last_of_a_large_late_transaction(
    db: Session, connect: Connect, first: Session
) -> None:
    create(db, "fifo")
    late = connect(autocommit=False)
    ids = publish_keys(late, [*["other"] * 300, "k"])
    message = publish(db, key="y")
    assert drain(db) == [message]
    late.commit()
    after = publish(db, key="k")
    assert get(first) == ids[:1]
    found = get(connect())
    assert after not in found
    first.rollback()
    ack(db, found)
    left = [message for message in rest(db) if message in (ids[-1], after)]
    assert found + left == [ids[-1], after]


def test_a_delayed_message_keeps_its_key_from_being_claimed_ahead(
    db: Session, connect: Connect, first: Session
) -> None:
    create(db, "fifo")
    head = publish(db, key="head")
    later = value(db, "select penstock.clock() + interval '1 minute'")
    delayed = publish(db, key="k", deliver_after=later)
    behind, free = publish(db, key="k"), publish(db, key="free")
    assert get(first) == [head]
    consumer = connect()
    assert get(consumer, 10) == [free]
    first.commit()
    assert drain(consumer) == []
    clock.advance(db, 61)
    assert rest(db) == [delayed, behind]


# What becomes of a message that was claimed ahead.


@pytest.mark.parametrize("passed", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("way", ["ack", "nack", "release", "bury", "extend", "expire"])
def test_what_becomes_of_a_message_that_was_claimed_ahead(
    db: Session, connect: Connect, first: Session, kind: str, way: str, passed: bool
) -> None:
    """Before and after the position has passed it."""
    ids = publish_many(db, 6)
    consumer, other = connect(), connect()
    assert get(first, 1, "first") == ids[:1]
    assert get(consumer, 2, seconds=60) == ids[1:3]
    message = ids[1]
    if passed:
        first.commit()
        assert get(other, 1, "other") == ids[3:4]
        assert notes(db) == []
    expected = dict.fromkeys(ids[4:] if passed else ids[3:], 1)
    if way == "extend":
        assert call(consumer, "extend_message_vt", "q", message, "t", LONG)
        clock.advance(db, 61)
        expected[ids[2]] = 2
    elif way == "expire":
        clock.advance(db, 61)
        assert ack(consumer, ids[1:3]) == []
        expected |= dict.fromkeys(ids[1:3], 2)
    else:
        end(consumer, way, message)
        expected |= {"nack": {message: 2}, "release": {message: 1}}.get(way, {})
    if not passed:
        first.commit()
    clock.advance(db, 1)
    found = attempts(other, holder="other") | attempts(other, holder="other")
    assert found == expected
    assert notes(db) == []
    if way not in ("extend", "expire"):
        assert ack(consumer, ids[2:3]) == ids[2:3]
    dead = values(db, "select message_id from penstock_data.dead_letters")
    assert dead == ([message] if way == "bury" else [])


def test_a_message_that_is_claimed_ahead_uses_up_its_attempts(
    db: Session, connect: Connect, first: Session
) -> None:
    create(db, max_delivery_attempts=2)
    ids = publish_many(db, 3)
    assert get(first) == ids[:1]
    consumer = connect()
    for attempt in (1, 2):
        assert attempts(consumer, 1) == {ids[1]: attempt}
        end(consumer, "nack", ids[1])
    assert attempts(consumer, 1) == {ids[2]: 1}
    assert values(db, "select message_id from penstock_data.dead_letters") == ids[1:2]
    first.rollback()
    assert rest(db) == ids[:1]


def test_a_claim_ahead_takes_back_what_has_expired(
    db: Session, connect: Connect, first: Session, kind: str
) -> None:
    ids = publish_many(db, 4)
    assert get(db, 1, seconds=5) == ids[:1]
    calm(db)
    assert get(first) == ids[1:2]
    clock.advance(db, 60)
    assert attempts(connect()) == {ids[0]: 2, ids[2]: 1, ids[3]: 1}


def test_claims_learn_when_a_claim_ahead_expires(
    db: Session, connect: Connect, first: Session, kind: str
) -> None:
    """The position of the queue knew nothing of its deadline."""
    ids = publish_many(db, 3)
    assert get(first) == ids[:1]
    assert get(connect(), seconds=4) == ids[1:2]
    first.commit()
    consumer = connect()
    assert get(consumer) == ids[2:]
    for _ in range(2):
        clock.advance(db, 3)
        found = attempts(consumer)
    assert found == {ids[1]: 2}


@pytest.mark.parametrize("whole", [True, False], ids=["transaction", "savepoint"])
def test_a_claim_ahead_that_is_rolled_back_leaves_nothing(
    db: Session, first: Session, second: Session, kind: str, whole: bool
) -> None:
    ids = publish_many(db, 10)
    assert get(first) == ids[:1]
    for size in (1, 3):
        second.execute("savepoint before")
        assert get(second, size) == ids[1 : 1 + size]
        second.execute("rollback" if whole else "rollback to before")
        assert notes(second) == []
    assert get(second, 2) == ids[1:3]
    second.commit()
    first.commit()
    assert rest(db) == ids[3:]


def test_a_pause_does_not_wait_for_a_claim_ahead_whose_savepoint_was_rolled_back(
    db: Session, first: Session, second: Session, kind: str
) -> None:
    ids = publish_many(db, 4)
    assert get(first) == ids[:1]
    second.execute("savepoint before")
    assert get(second) == ids[1:2]
    second.execute("rollback to before")
    first.commit()
    assert call(db, "pause_queue", "q") is not None
    assert get(second) == []
    second.commit()


@pytest.mark.parametrize("end_of_first", [None, *ENDS])
def test_several_claims_of_one_transaction(
    db: Session, first: Session, second: Session, kind: str, end_of_first: str | None
) -> None:
    ids = publish_many(db, 12)
    assert get(first) + get(first, 2) == ids[:3]
    assert get(second) + get(second, 2) == ids[3:6]
    # The claim that was ahead now moves the position, if it can.
    if end_of_first:
        first.execute(end_of_first.encode())
    found = get(second, 2)
    assert found == (ids[:2] if end_of_first == "rollback" else ids[6:8])
    second.commit()
    first.commit()
    taken = {*ids[3:6], *found, *([] if end_of_first == "rollback" else ids[:3])}
    assert rest(db) == [message for message in ids if message not in taken]


# What else a queue has.


@pytest.mark.parametrize("moment", ["before", "between", "after"])
def test_a_publisher_that_commits_late(
    db: Session, connect: Connect, first: Session, second: Session, kind: str, moment: str
) -> None:
    """Before the open claim, between it and the claim ahead, or after both."""
    publisher = connect(autocommit=False)
    late = publish_many(publisher, 2)
    ids = publish_many(db, 6)
    if moment == "before":
        publisher.commit()
    found = get(first, 2)
    if moment == "between":
        publisher.commit()
    found += get(second, 2)
    if moment == "after":
        publisher.commit()
    found += get(connect(), 2, "third")
    assert len(set(found)) == 6
    second.commit()
    first.commit()
    assert sorted(found + rest(db)) == sorted(late + ids)


@pytest.mark.parametrize("last", ENDS)
def test_a_late_transaction_whose_messages_were_claimed_ahead(
    db: Session, connect: Connect, first: Session, second: Session, kind: str, last: str
) -> None:
    """The position comes to them in the next window, before all others."""
    publisher = connect(autocommit=False)
    late = publish_many(publisher, 3)
    ids = publish_many(db, 3)
    assert get(db, 1, "other") == ids[:1]
    publisher.commit()
    held = get(first, 1, "first")
    found = get(second, 3, "second")
    assert len(held + found) == 4
    second.commit()
    first.execute(last.encode())
    kept = held if last == "commit" else []
    # It claims within the window in which they were open.
    found += get(db, 1, "between")
    assert sorted(ids[:1] + kept + found + rest(db)) == sorted(late + ids)


def test_the_caller_does_not_claim_its_own_messages_ahead(
    db: Session, first: Session, second: Session, kind: str
) -> None:
    ids = publish_many(db, 2)
    assert get(first) == ids[:1]
    own = publish_many(second, 2)
    assert get(second, 10) == ids[1:]
    own += publish_many(second, 1)
    assert get(second, 10) == []
    second.commit()
    first.commit()
    assert rest(db) == own


@pytest.mark.parametrize("last", ENDS)
def test_a_retry_is_claimed_ahead_once(
    db: Session, connect: Connect, first: Session, second: Session, kind: str, last: str
) -> None:
    ids = publish_many(db, 8)
    assert get(db, 3) == ids[:3]
    calm(db)
    assert get(first) == ids[3:4]
    for message in ids[:3]:
        end(db, "nack", message)
    assert attempts(second, 2, "second") == dict.fromkeys(ids[:2], 2)
    assert attempts(connect(), 2, "third") == {ids[2]: 2, ids[4]: 1}
    first.commit()
    # The claim that moves the position passes over what is locked.
    assert get(db, 1) == ids[5:6]
    second.execute(last.encode())
    left = rest(db)
    assert sorted(left) == ([] if last == "commit" else ids[:2]) + ids[6:]


@pytest.mark.parametrize("full", [True, False], ids=["full scan", "no full scan"])
def test_a_retry_comes_soon_after_the_claim_ahead_that_had_it_was_rolled_back(
    db: Session, connect: Connect, first: Session, second: Session, kind: str, full: bool
) -> None:
    """Claims have moved their floor past it meanwhile."""
    retried, *ids = publish_many(db, 8)
    assert get(db) == [retried]
    assert get(first) == ids[:1]
    end(db, "nack", retried)
    assert get(second) == [retried]
    first.commit()
    if full:
        clock.advance(db, 11)
    consumer = connect()
    assert get(consumer) == ids[1:2]
    assert get(consumer) == ids[2:3]
    second.rollback()
    clock.advance(db, 1)
    assert attempts(consumer, 1) == {retried: 2}


def test_priorities_are_claimed_ahead_once_they_are_scheduled(
    db: Session, connect: Connect, first: Session, second: Session
) -> None:
    create(db)
    urgent, more = publish(db, priority=5), publish(db, priority=5)
    ids = publish_many(db, 2)
    low = publish(db, priority=-5)
    assert get(db) == [urgent]
    assert get(first) == [more]
    another = publish(db, priority=9)
    assert get(second, 10) == ids
    second.rollback()
    assert get(second, 10) == ids
    second.commit()
    first.commit()
    assert get(connect(), 10) == [another, low]
    assert notes(db) == []


def test_a_claim_ahead_that_gets_nothing_tells_whether_others_hold_something(
    db: Session, connect: Connect, first: Session, kind: str
) -> None:
    """A consumer must not take the queue for empty: what others hold may come back."""
    ids = publish_many(db, 1)
    assert get(first) == ids
    consumer = connect()
    codes = busy(consumer)
    assert get(consumer) == []
    assert get(consumer, 10) == []
    assert codes == ["PS018"] * 2
    first.rollback()
    assert get(consumer, 10) == ids
    assert codes == ["PS018"] * 2


def test_a_prioritised_message_that_no_claim_has_scheduled_is_not_forgotten(
    db: Session, connect: Connect, first: Session
) -> None:
    create(db)
    ids = publish_many(db, 2)
    assert get(first) == ids[:1]
    consumer = connect()
    codes = busy(consumer)
    assert get(consumer) == ids[1:]
    urgent = publish(db, priority=5)
    assert get(consumer) == []
    assert codes == ["PS018"]
    first.commit()
    assert get(consumer) == [urgent]


@pytest.mark.parametrize("way", ["expires", "retention"])
@pytest.mark.parametrize("kind", KINDS)
def test_messages_whose_time_is_over_are_not_claimed_ahead(
    db: Session, connect: Connect, first: Session, kind: str, way: str
) -> None:
    create(db, kind, **({"retention": "1 minute"} if way == "retention" else {}))
    soon = value(db, "select penstock.clock() + interval '1 minute'")
    options = {"expires_at": soon} if way == "expires" else {}
    old = [publish(db, key=f"old-{n}", **options) for n in range(3)]
    assert get(first) == old[:1]
    clock.advance(db, 50)
    fresh = [publish(db, key=f"new-{n}") for n in range(3)]
    clock.advance(db, 20)
    assert get(connect(), 2) == fresh[:2]
    first.rollback()
    assert rest(db) == fresh[2:]
    assert {call(db, "message_state", "q", message) for message in old} == {"done"}


def test_a_registration_is_ended_by_one_claim_and_waited_for_by_none(
    db: Session, connect: Connect, first: Session, second: Session, kind: str
) -> None:
    ids = publish_many(db, 6)
    call(db, "start_waiting", "q", 60)
    assert get(first) == ids[:1]
    assert get(second) == ids[1:2]
    first.commit()
    call(db, "start_waiting", "q", 60)
    assert get(connect()) == ids[2:3]
    second.commit()
    assert value(db, "select count(*) from penstock_data.waiting") == 0


def test_a_claim_that_got_the_rest_of_a_batch_stops_no_other(
    db: Session, connect: Connect, first: Session, kind: str
) -> None:
    """It came from a slice, and took the claim lock for what was missing."""
    ids = publish_many(db, 40)
    with db.transaction():
        db.execute("select penstock_data.lock_queue('q')")
        taken = values(db, SHARE)
    first.execute("select set_config('penstock.beside', 'q', false)")
    db.execute("update penstock_data.claims set claimed_at = '-infinity' where token = ''")
    found = get(first, 5, "first")
    assert taken + found == ids[:6]
    other = connect(autocommit=False)
    assert len(get(other, 2, "other")) == 2


# Old snapshots.


@pytest.mark.parametrize("level", LEVELS)
def test_an_old_snapshot_gets_an_error_or_the_right_messages(
    db: Session, connect: Connect, first: Session, second: Session, kind: str, level: str
) -> None:
    caller = connect(isolation=level, autocommit=False)

    def ahead(size: int) -> list[int]:
        """Claimed ahead of a claim that is rolled back: the position stays where it was."""
        get(first, 1, "first")
        found = get(second, size, "second")
        second.commit()
        first.rollback()
        return found

    def passed() -> list[int]:
        return ahead(2) + get(db, 1, "db")

    def retried() -> list[int]:
        (message,) = ahead(1)
        assert get(first, 1, "first")
        end(db, "nack", message, "second")
        assert get(second, 1, "second") == [message]
        second.commit()
        first.rollback()
        return [message]

    for meanwhile in (lambda: ahead(2), lambda: ahead(20), passed, retried):
        caller.commit()
        calm(db)
        expected = publish_many(db, 8)
        caller.execute("select 1")
        found = meanwhile()
        try:
            claimed = get(caller, 3, "caller")
            caller.commit()
        except psycopg.errors.SerializationFailure:
            caller.rollback()
            claimed = get(caller, 3, "caller")
            caller.commit()
        assert sorted(found + claimed + rest(db)) == expected


@pytest.mark.parametrize("level", LEVELS)
def test_an_old_snapshot_neither_goes_ahead_nor_stops_for_ever(
    db: Session, connect: Connect, first: Session, second: Session, kind: str, level: str
) -> None:
    """It waits for the claim lock alone, and keeps it alone."""
    ids = publish_many(db, 6)
    assert get(first) == ids[:1]
    assert get(second) == ids[1:2]
    caller = connect(isolation=level, autocommit=False)
    codes = busy(caller)
    assert get(caller) == []
    assert codes == ["PS018"]
    # It has opened the gate again.
    other = connect()
    assert get(other) == ids[2:3]
    caller.commit()
    first.commit()
    second.commit()
    assert get(caller) == ids[3:4]
    assert get(other) == []
    caller.commit()
    assert rest(db) == ids[4:]


# Calls that take the claim lock alone.


def requeue(conn: Session) -> object:
    return call(conn, "requeue_dlq_messages", "q")


def move(conn: Session) -> object:
    return call(conn, "move_messages", "q", "other")


def fair(conn: Session) -> object:
    return conn.execute("select penstock_data.make_fair('q')").fetchall()


def shorten(conn: Session) -> object:
    statement = """
        select penstock_data.set_deadline(q.id, 'held', c.message_ids, 60, '1 day')
        from penstock_data.queues q join penstock_data.claims c on c.token = 'held'
    """
    return conn.execute(statement.encode()).fetchall()


def pause(conn: Session) -> object:
    return call(conn, "pause_queue", "q")


def purge(conn: Session) -> object:
    return call(conn, "purge_queue", "q")


def delete(conn: Session) -> object:
    return call(conn, "delete_queue", "q")


ALONE = [pause, purge, delete, requeue, move, fair, shorten]


@pytest.mark.parametrize("work", ALONE)
def test_a_call_that_needs_the_queue_alone_is_not_starved(
    db: Session,
    connect: Connect,
    first: Session,
    second: Session,
    work: Callable[[Session], object],
) -> None:
    """It waits for the claims that are open; meanwhile no more claims go ahead."""
    create(db)
    call(db, "create_topic", "other")
    ids = publish_many(db, 12)
    assert get(db, 1, "held") == ids[:1]
    assert get(first) == ids[1:2]
    assert get(second) == ids[2:3]
    caller, late = connect(), connect()
    call(db, "configure", "lock_wait", "60 seconds")
    working = in_background(db, caller, lambda: work(caller))
    gate = "select penstock_data.gate_is_closed(q.id) from penstock_data.queues q where name = 'q'"
    until(lambda: value(db, gate))
    call(db, "configure", "lock_wait", "5 milliseconds")
    codes = busy(late)
    assert [get(late), get(late, 2)] == [[], []]
    assert codes == ["PS018"] * 2
    second.commit()
    first.commit()
    working.result()
    if work is delete:
        assert value(db, "select count(*) from penstock_data.claimed_ahead") == 0
        return
    call(db, "resume_queue", "q")
    found = rest(db)
    assert found == ([] if work in (purge, move) else ids[3:])
    assert sorted(ack(db, ids[1:3])) == ([] if work is purge else ids[1:3])


def test_the_gate_is_closed_although_claims_look_at_it(
    db: Session, connect: Connect, first: Session, second: Session
) -> None:
    create(db)
    ids = publish_many(db, 4)
    assert get(first) == ids[:1]
    slot = value(db, "select penstock_data.gate_slot(id) from penstock_data.queues")
    look = "select from penstock_data.message_locks where slot = %s for key share"
    second.execute(look, (slot,))
    pausing = connect()
    paused = Background(pause, pausing)
    gate = "select penstock_data.gate_is_closed(q.id) from penstock_data.queues q where name = 'q'"
    # It tries again and again, each time in a transaction of its own within its transaction; or
    # it has given up, and waits for the claim lock.
    newest = "select pg_snapshot_xmax(pg_current_snapshot())::text::bigint"
    before = value(db, newest)
    until(lambda: waits(db, pausing) or value(db, newest) > before + 10)
    second.rollback()
    until(lambda: value(db, gate))
    assert get(second) == []
    second.rollback()
    first.rollback()
    assert paused.result() is not None


@pytest.mark.parametrize("work", [pause, purge, requeue])
def test_a_call_is_not_starved_by_claims_that_overlap(
    db: Session, connect: Connect, work: Callable[[Session], object]
) -> None:
    create(db)
    publish_many(db, 1000)
    sessions = [connect(autocommit=False) for _ in range(3)]
    caller = connect()
    assert get(sessions[0])
    assert get(sessions[1])
    working = Background(work, caller)
    # At every moment at least one of them is open, as long as claims find something.
    for session in itertools.cycle(sessions):
        if not working.running:
            break
        session.commit()
        get(session)
    working.result()


@pytest.mark.parametrize("last", ENDS)
def test_a_queue_becomes_fair_while_messages_are_noted(
    db: Session, connect: Connect, first: Session, last: str
) -> None:
    create(db)
    ids = publish_many(db, 10)
    assert get(db, 1, "db") == ids[:1]
    assert get(first, 1, "first") == ids[1:2]
    assert get(connect(), 2) == ids[2:4]
    more = publish_many(db, 2)
    assert get(connect(), 2) == ids[4:6]
    first.execute(last.encode())
    fair(db)
    kept = ids[1:2] if last == "commit" else []
    assert sorted([ids[0], *kept, *ids[2:6], *rest(db)]) == ids + more
    assert ack(db, ids[2:4]) == ids[2:4]


def test_an_sqs_queue_becomes_fair_while_messages_are_noted(
    db: Session, connect: Connect, first: Session
) -> None:
    sqs = Sqs(db)
    sqs.create("q")
    for body in "abcdef":
        sqs.send("q", body)
    name = value(db, "select name from penstock_data.queues where name like '%%q'")
    assert len(claim(first, 1, name=name)) == 1
    assert [one["Body"] for one in Sqs(connect()).receive("q", 2)] == ["b", "c"]
    sender = connect()
    sent = in_background(db, sender, lambda: Sqs(sender).send("q", "group", MessageGroupId="group"))
    first.rollback()
    sent.result()
    assert value(db, "select ordering from penstock_data.queues where name = %s", name) == "fair"
    assert sorted(sqs.bodies("q", 10)) == ["a", "d", "e", "f", "group"]
    assert notes(db) == []


# Housekeeping.


def test_maintenance_loses_nothing_that_is_noted(
    db: Session, connect: Connect, first: Session, kind: str
) -> None:
    call(db, "configure", "segment_bytes", "1")
    found: list[int] = []
    ids = publish_many(db, 6)
    assert get(first, 1, "first") == ids[:1]
    consumer = connect()
    assert get(consumer, 2) == ids[1:3]
    for _ in range(3):
        maintain(db)
        ids += publish_many(db, 2)
    assert notes(db) == ids[1:3]
    first.commit()
    assert get(db, 1, "db") == ids[3:4]
    for _ in range(3):
        maintain(db)
    end(consumer, "nack", ids[1])
    found = attempts(consumer, 100)
    assert found == {ids[1]: 2} | dict.fromkeys(ids[4:], 1)
    assert sorted(ack(consumer, [*found, ids[2]])) == sorted([*found, ids[2]])
    assert ack(db, ids[:1], holder="first") + ack(db, ids[3:4], holder="db") == [ids[0], ids[3]]
    for _ in range(4):
        maintain(db)
    assert value(db, "select count(*) from penstock_data.messages") == 0
    assert notes(db) == []


@pytest.mark.parametrize("kind", [*KINDS, "fair"], indirect=True)
def test_a_rebase_keeps_what_is_noted(
    db: Session, connect: Connect, first: Session, kind: str
) -> None:
    ids = publish_keys(db, [*(f"k{n}" for n in range(1010 if kind == "fair" else 6)), "k1", "k2"])
    assert get(first, 1, "first")
    consumer = connect()
    noted = get(consumer, 3)
    assert notes(db) == noted
    assert ack(consumer, noted[:1]) == noted[:1]
    first.rollback()
    db.execute("delete from penstock_data.origin")
    there = connect()
    assert call(there, "rebase") == len(ids)
    assert notes(there) == []
    marked = "select count(*) from penstock_data.message_locks where noted_by is not null"
    assert value(there, marked) == 0
    left = drain(there)
    # Behind a message that is still claimed its key waits.
    waiting = {ids[-1]} if kind == "fifo" else set()
    assert sorted(left) == sorted(set(ids) - set(noted) - waiting)
    assert ack(there, noted[1:]) == noted[1:]
    assert drain(there) == sorted(waiting)


def test_each_message_is_counted_once(
    db: Session, connect: Connect, first: Session, kind: str
) -> None:
    ids = publish_many(db, 10)
    assert get(first, 1, "first") == ids[:1]
    assert get(connect(), 2) == ids[1:3]
    waiting = [ids[0], *ids[3:]]

    def look() -> None:
        overview = "select waiting, claimed, blocked, delayed from penstock.queue_overview()"
        assert db.execute(overview).fetchone() == (8, 2, 0, 0)
        statistics = """
            select pending_count, processing_count, waiting_count, total_count
            from penstock.get_queue_statistics('q')
        """
        assert db.execute(statistics).fetchone() == (8, 2, 8, 10)
        inspect = "select state from penstock.inspect_message('q', %s)"
        state = "message_state"
        for message in ids:
            expected = "waiting" if message in waiting else "claimed"
            assert values(db, inspect, message) == [expected]
            assert call(db, state, "q", message) == expected
        found = "select message_id from penstock.find_messages('q', %s)"
        assert sorted(values(db, found, "waiting")) == waiting
        assert values(db, found, "claimed") == ids[1:3]
        browsed = db.execute("select message_id, state from penstock.browse_messages('q')")
        assert sorted(browsed) == [
            (message, "waiting" if message in waiting else "claimed") for message in ids
        ]
        view = "select message_id, status from penstock.queue_messages"
        assert sorted(db.execute(view)) == [
            (message, "pending" if message in waiting else "processing") for message in ids
        ]
        assert values(db, "select message_count from penstock.key_counts('q')") == [1] * 10

    look()
    first.rollback()
    look()
    with db.transaction(force_rollback=True):
        assert purge(db) == 10
    assert rest(db) == waiting


def test_messages_that_share_a_lock(
    db: Session, connect: Connect, first: Session, kind: str
) -> None:
    """The second one is taken later, and not lost."""
    (one,) = publish_many(db, 1)
    db.execute("select setval('penstock_data.message_id', %s)", (one + SLOTS - 1,))
    ids = publish_many(db, 3)
    assert ids[0] == one + SLOTS
    assert get(first) == [one]
    consumer = connect()
    assert get(consumer) == ids[1:2]
    first.commit()
    assert get(db) == ids[:1]
    assert rest(db) == ids[2:]
    # And in one batch.
    (one,) = publish_many(db, 1)
    db.execute("select setval('penstock_data.message_id', %s)", (one + SLOTS - 1,))
    both = [one, *publish_many(db, 1)]
    assert get(db, 10) == both


@pytest.mark.parametrize("way", ["one", "batch"])
def test_a_claim_passes_over_more_than_a_thousand_notes(
    db: Session, connect: Connect, first: Session, kind: str, way: str
) -> None:
    ids = publish_many(db, 2600)
    assert get(first) == ids[:1]
    assert get(connect(), 2500) == ids[1:2501]
    first.commit()
    size = 1 if way == "one" else 20
    assert get(db, size) == ids[2501 : 2501 + size]
    assert rest(db) == ids[2501 + size :]


def test_the_locks_of_claims_were_lost_in_a_crash(
    db: Session, connect: Connect, first: Session, kind: str
) -> None:
    ids = publish_many(db, 8)
    db.execute("truncate penstock_data.claim_locks")
    assert get(first) == ids[:1]
    consumer = connect()
    codes = busy(consumer)
    assert get(consumer) == []
    assert codes == ["PS018"]
    maintain(db)
    first.commit()
    assert get(consumer) == ids[1:2]
    maintain(db)
    assert get(first) == ids[2:3]
    assert get(consumer) == ids[3:4]
    first.rollback()
    assert rest(db) == [ids[2], *ids[4:]]


def test_health_names_all_who_hold_the_claim_lock(
    db: Session, first: Session, second: Session, kind: str
) -> None:
    ids = publish_many(db, 3)
    held_by = "select pid from penstock_data.claim_lock_holders('0 seconds') order by pid"
    assert get(first) == ids[:1]
    assert values(db, held_by) == [pid(first)]
    assert get(second) == ids[1:2]
    assert values(db, held_by) == sorted([pid(first), pid(second)])
    first.commit()
    assert values(db, held_by) == [pid(second)]
    second.commit()
    assert values(db, held_by) == []


PRESENT = "select count(*) from penstock_data.message_locks where slot < -1024 and xmax <> '0'"
RENEW = "update penstock_data.message_locks set renewed = 0 where slot < -1024 and xmax <> '0'"
ROUNDS = 50


def test_a_claim_that_waits_for_a_moment_does_not_make_others_lock_single_messages(
    db: Session, connect: Connect, first: Session
) -> None:
    create(db)
    call(db, "configure", "lock_wait", "1 minute")
    waiting = connect()
    for _ in range(ROUNDS):
        ids = publish_many(db, 4)
        forget(waiting)
        db.execute(RENEW)
        assert get(first, 2) == ids[:2]
        claimed = in_background(db, waiting, lambda: get(waiting, 2))
        first.commit()
        assert claimed.result() == ids[2:]
        if not notes(db):
            assert value(db, PRESENT) == 0
            return
        # On a busy machine the claim may have waited for so long that it went ahead.
        assert drain(db) == []
    pytest.fail("every claim went ahead")


@pytest.mark.parametrize("way", ["plain", "savepoint", "waited"])
def test_a_claim_does_not_wait_for_an_idle_transaction_to_the_end_of_lock_wait(
    db: Session, connect: Connect, first: Session, second: Session, way: str
) -> None:
    create(db)
    ids = publish_many(db, 10)
    call(db, "configure", "lock_wait", "10 minutes")
    if way == "savepoint":
        first.execute("savepoint before")
    if way == "waited":
        # The lock belongs to a subtransaction then.
        assert get(second, 1) == ids[:1]
        claimed = in_background(db, first, lambda: get(first, 1))
        second.commit()
        claimed.result()
        ids = ids[1:]
    else:
        assert get(first, 1) == ids[:1]
    other = connect()
    other.execute("set statement_timeout = '2min'")
    assert get(other, 1) == ids[1:2]
    assert get(other, 1) == ids[2:3]


def test_the_transaction_that_holds_the_claim_lock_is_known(
    db: Session, first: Session, second: Session
) -> None:
    def holder() -> object:
        statement = "select penstock_data.claim_lock_xid(id)::text from penstock_data.queues"
        return value(db, statement)

    create(db)
    ids = publish_many(db, 10)
    assert get(first, 1) == ids[:1]
    mine = value(first, "select pg_current_xact_id()::text")
    assert holder() == mine
    assert get(second, 1) == ids[1:2]
    assert holder() == mine
    second.commit()
    assert holder() == mine
    first.rollback()
    assert holder() is None
    assert get(first, 1) == ids[:1]
    assert holder() == value(first, "select pg_current_xact_id()::text") != mine


CAREFUL = """
    select coalesce(sum(f.calls), 0)::int from pg_stat_user_functions f
    where f.funcname = 'claim_with_care'
"""


@pytest.mark.parametrize("size", [1, 2])
def test_the_fast_path_is_taken_again_when_the_notes_are_passed(
    db: Session, connect: Connect, first: Session, size: int
) -> None:
    create(db)
    db.execute(f"alter database {db.info.dbname} set track_functions = 'all'".encode())
    ids = publish_many(db, 120)
    consumer = connect()
    assert get(db, 1) == ids[:1]
    assert get(first, 1) == ids[1:2]
    assert get(connect(), 3) == ids[2:5]
    first.commit()

    def careful() -> int:
        consumer.execute("select pg_stat_force_next_flush()")
        consumer.execute("select pg_stat_clear_snapshot()")
        return int(value(consumer, CAREFUL))

    before = careful()
    found = get(consumer, size)
    assert careful() == before + 1
    for _ in range(40):
        found += get(consumer, size)
    assert found == ids[5 : 5 + 41 * size]
    # Every second or so a claim looks at everything.
    assert careful() <= before + 20
    assert notes(db) == []
    assert value(db, "select ahead from penstock_data.positions order by seq desc limit 1") is None


class Mixed(Traffic):
    """Long and short transactions, some of them rolled back; messages that come back."""

    def start(self, kind: str) -> None:
        self.fifo = kind == "fifo"
        self.key: dict[int, str] = {}
        self.held: Counter[str] = Counter()
        self.faulty: list[object] = []

    def publish(self, session: Session, seed: int) -> None:
        chance = random.Random(seed)
        while self.goes_on:
            # Keys of its own: only transactions that follow each other have an order.
            keys = [f"{seed}-{chance.randrange(4)}" for _ in range(chance.randint(1, 6))]
            ids = publish_keys(session, keys)
            if chance.random() < 0.3:
                time.sleep(chance.random() * 0.03)
            if chance.random() < 0.1:
                session.rollback()
                continue
            with self.lock:
                self.key |= zip(ids, keys, strict=True)
                session.commit()
                self.published += ids
            time.sleep(chance.random() * 0.01)

    def consume(self, session: Session, seed: int) -> None:
        chance = random.Random(seed)
        holder = f"consumer-{seed}"
        while self.goes_on:
            ids: list[int] = []
            for _ in range(chance.choice([1, 1, 1, 2])):
                session.execute("savepoint s")
                found = get(session, chance.choice([1, 1, 2, 5]), holder)
                if chance.random() < 0.1:
                    session.execute("rollback to s")
                else:
                    ids += found
            if chance.random() < 0.3:
                time.sleep(chance.random() * 0.08)
            if chance.random() < 0.15:
                session.rollback()
                continue
            # A message counts as held from here on: its claim may commit before this goes on.
            self.hold(ids, 1)
            session.commit()
            if chance.random() < 0.3:
                time.sleep(chance.random() * 0.02)
            self.hold(ids, -1)
            way = chance.random()
            if way < 0.15:
                for message in ids:
                    end(session, chance.choice(["nack", "release"]), message, holder)
                session.commit()
                continue
            done = ack(session, ids, holder=holder)
            assert sorted(done) == sorted(ids)
            with self.lock:
                session.commit()
                self.delivered += done

    def hold(self, ids: list[int], by: int) -> None:
        """fifo: no other session holds a message of the same key."""
        with self.lock:
            for message in ids if self.fifo else []:
                name = self.key[message]
                self.held[name] += by
                if self.held[name] > 1:
                    self.faulty.append((name, message))


@pytest.mark.parametrize("kind", [*KINDS, "fair"], indirect=True)
def test_traffic_of_long_and_short_transactions(db: Session, connect: Connect, kind: str) -> None:
    """Counted at the end: messages lost, not published by anyone, and delivered twice."""
    call(db, "configure", "segment_bytes", "65536")
    db.execute("update penstock_data.queues set max_delivery_attempts = 0")
    traffic = Mixed(time.monotonic() + PATIENCE_SECONDS)
    traffic.start(kind)
    running = [Background(traffic.publish, connect(autocommit=False), n) for n in range(3)]
    running += [Background(traffic.consume, connect(autocommit=False), 10 + n) for n in range(8)]
    # One claim stays open until another has gone ahead of it: by chance alone that may not happen.
    holding = connect(autocommit=False)
    until(lambda: get(holding, holder="open"))
    ahead = "select true from penstock_data.message_locks where noted_by is not null limit 1"
    until(lambda: value(db, ahead))
    holding.rollback()
    traffic.ends_at = time.monotonic() + 2
    for number in itertools.count():
        if not traffic.goes_on:
            break
        maintain(db)
        if number % 8 == 7:
            call(db, "pause_queue", "q")
            call(db, "resume_queue", "q")
    until(lambda: not any(one.running for one in running))
    for one in running:
        one.result()
    traffic.delivered += rest(db)
    assert traffic.faults == (0, 0, 0)
    assert traffic.faulty == []
    if kind == "fifo":
        for name in set(traffic.key.values()):
            mine = [each for each in traffic.delivered if traffic.key[each] == name]
            assert mine == sorted(mine), name
