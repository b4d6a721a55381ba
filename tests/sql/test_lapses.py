"""Messages whose time is over: they make way in one claim, housekeeping finds them, and an operator
who brings a dead letter back gives it a new time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.fixtures.clock import advance

if TYPE_CHECKING:
    from datetime import datetime

    from tests.fixtures.databases import Connect
    from tests.sql.caller import Caller

QUEUES = ["standard", "fair", "fifo", "runs", "filtered"]


def create(mq: Caller, kind: str = "standard", name: str = "q", **options: object) -> None:
    """A queue of the topic "t"."""
    named = dict(options)
    if kind == "filtered":
        named["filter"] = {"payload": {}}
    elif kind != "standard":
        named["ordering"] = "fifo" if kind == "runs" else kind
    mq("create_queue", name, "t", **named)
    if kind == "runs":
        mq.db.execute("update penstock_data.queues set runs = true where name = %s", (name,))


def publish(mq: Caller, count: int, expires_at: datetime | None, *, key: str = "n::text") -> None:
    """Messages with a priority, so that every queue gives them a place of their own."""
    mq.db.execute(
        f"""
        select count(p) from (select penstock.publish_messages('t',
            array_agg(jsonb_build_object('n', n)), keys => array_agg({key}), priorities => '{{1}}',
            expires_at => array_agg(%s::timestamptz)) p from generate_series(1, {count}) n) done
        """.encode(),
        (expires_at,),
    )


def place(mq: Caller, queue: str = "q") -> None:
    """Bring all of the log into the schedule of the queue."""
    position = "penstock_data.positions"
    mq.db.execute(
        f"""
        do $$
        declare
            v_queue penstock_data.queues;
            v_position {position};
        begin
            select * into v_queue from penstock_data.queues where name = '{queue}';
            select * into v_position from penstock_data.position_of(v_queue.id);
            v_position := penstock_data.attend(v_queue, v_position,
                penstock_data.snapshot_without_me(pg_current_snapshot()), penstock_data.clock(),
                100000, false, null);
            perform penstock_data.append_position(v_position);
        end $$
        """.encode()
    )


def waiting(mq: Caller) -> int:
    return int(
        mq.value(
            "select (select count(*) from penstock_data.scheduled)"
            " + (select count(*) from penstock_data.backlog where not held)"
        )
    )


def has_lapsed(mq: Caller, queue: str = "q") -> bool:
    return bool(
        mq.value(
            "select penstock_data.has_lapsed(q, penstock_data.clock())"
            " from penstock_data.queues q where q.name = %s",
            queue,
        )
    )


def lapse(mq: Caller, queue: str = "q") -> int:
    """What maintain() does with a queue that may hold something whose time is over."""
    return int(
        mq.value(
            "select penstock_data.lapse_queue(q, penstock_data.clock())"
            " from penstock_data.queues q,"
            " lateral (select penstock_data.lock_queue(q.name)) locked where q.name = %s",
            queue,
        )
    )


# Claims


@pytest.mark.parametrize("kind", QUEUES)
@pytest.mark.parametrize("count", [1, 7])
def test_thousands_of_expired_messages_do_not_stop_a_queue(
    mq: Caller, kind: str, count: int
) -> None:
    create(mq, kind)
    publish(mq, 3000, mq.at(seconds=60))
    publish(mq, 20, None)
    place(mq)
    assert waiting(mq) == 3020
    advance(mq.db, seconds=61)
    found = len(mq.consume("q", count))
    assert 0 < found <= count
    assert len(mq.drain("q")) == 20 - found
    assert mq.statistics("q").pending_count == 0
    assert mq.statistics("q").completed_count == 3020 - found


@pytest.mark.parametrize("kind", ["fifo", "runs"])
@pytest.mark.parametrize("count", [1, 10])
@pytest.mark.parametrize("retention", [None, "60 seconds"])
def test_a_claim_passes_all_expired_messages_of_a_key(
    mq: Caller, kind: str, count: int, retention: str | None
) -> None:
    create(mq, kind, **({"retention": retention} if retention else {}))
    publish(mq, 2500, None if retention else mq.at(seconds=60), key="'k'::text")
    place(mq)
    advance(mq.db, seconds=61)
    mq.publish("t", "live", key="k", priority=1)
    mq.publish("t", "next", key="k", priority=1)
    payloads = ["live", "next"][: count if kind == "runs" else 1]
    rows = mq.consume("q", count)
    assert [row.payload for row in rows] == payloads
    assert waiting(mq) == 2 - len(payloads)
    for row in rows:
        assert mq.ack("q", row.message_id)
    assert mq.drain("q") == ["live", "next"][len(payloads) :]


@pytest.mark.parametrize("kind", ["fifo", "runs"])
def test_a_lane_goes_on_when_those_behind_a_claimed_message_expire(mq: Caller, kind: str) -> None:
    create(mq, kind)
    mq.publish("t", 1, key="k")
    publish(mq, 100, mq.at(seconds=60), key="'k'::text")
    mq.publish("t", 2, key="k")
    (first,) = mq.consume("q", 1, vt=600)
    advance(mq.db, seconds=61)
    assert mq.consume("q", 1) == []
    assert mq.ack("q", first.message_id)
    assert mq.payloads("q", 1) == [2]


def test_a_claim_that_found_something_leaves_the_rest_of_many_expired_to_the_next(
    mq: Caller,
) -> None:
    create(mq)
    publish(mq, 1, None)
    publish(mq, 5000, mq.at(seconds=60))
    publish(mq, 1, None)
    place(mq)
    advance(mq.db, seconds=61)
    assert len(mq.consume("q", 2)) == 1
    assert 0 < waiting(mq) < 5001
    assert len(mq.consume("q", 2)) == 1


# Housekeeping


@pytest.mark.parametrize("kind", QUEUES)
@pytest.mark.parametrize("placed", [True, False])
def test_housekeeping_finds_what_expired_in_a_queue_without_claims(
    mq: Caller, kind: str, placed: bool
) -> None:
    create(mq, kind)
    publish(mq, 50, mq.at(seconds=60), key="mod(n, 5)::text")
    publish(mq, 5, None, key="mod(n, 5)::text")
    if placed:
        place(mq)
    assert not has_lapsed(mq)
    advance(mq.db, seconds=61)
    assert has_lapsed(mq)
    assert lapse(mq) == 50
    assert not has_lapsed(mq)
    assert mq.statistics("q").pending_count == 5
    assert len(mq.drain("q")) == 5


@pytest.mark.parametrize("kind", QUEUES)
def test_housekeeping_finds_unread_messages_at_the_head_of_the_log(mq: Caller, kind: str) -> None:
    create(mq, kind)
    for payload in range(3):
        mq.publish("t", {"n": payload}, key=str(payload), expires_at=mq.at(seconds=60))
    mq.publish("t", {"n": 3}, key="live")
    assert not has_lapsed(mq)
    advance(mq.db, seconds=61)
    assert has_lapsed(mq)
    assert lapse(mq) == 3
    assert not has_lapsed(mq)
    assert mq.payloads("q") == [{"n": 3}]


@pytest.mark.parametrize("kind", QUEUES)
@pytest.mark.parametrize("placed", [True, False])
def test_housekeeping_finds_what_outlived_the_retention(
    mq: Caller, kind: str, placed: bool
) -> None:
    create(mq, kind, retention="60 seconds")
    publish(mq, 50, None, key="mod(n, 5)::text")
    if placed:
        place(mq)
    assert not has_lapsed(mq)
    advance(mq.db, seconds=61)
    mq.publish("t", {"n": 0}, key="live")
    assert has_lapsed(mq)
    assert lapse(mq) == 50
    assert not has_lapsed(mq)
    assert mq.payloads("q") == [{"n": 0}]


def test_a_retry_knows_when_it_expires(mq: Caller) -> None:
    create(mq)
    message = mq.publish("t", 1, expires_at=mq.at(seconds=60))
    mq.consume("q")
    assert mq.nack("q", message, delay_seconds=600)
    assert not has_lapsed(mq)
    advance(mq.db, seconds=61)
    assert has_lapsed(mq)
    assert lapse(mq) == 1


def test_asking_for_lapsed_messages_takes_no_lock(mq: Caller, connect: Connect) -> None:
    create(mq)
    other = connect(autocommit=False)
    other.execute("select penstock_data.lock_queue('q')")
    mq.db.execute("set lock_timeout = '1ms'")
    assert not has_lapsed(mq)


# Dead letters


def bury(mq: Caller, queue: str = "q") -> None:
    for row in mq.consume(queue, token="undertaker"):
        assert mq("bury_message", queue, row.message_id, "undertaker", "broken")


@pytest.mark.parametrize("kind", QUEUES)
@pytest.mark.parametrize("retention", [None, "300 seconds"])
def test_a_requeued_dead_letter_has_its_time_anew(
    mq: Caller, kind: str, retention: str | None
) -> None:
    create(mq, kind, **({"retention": retention} if retention else {}))
    expires_at = None if retention else mq.at(seconds=900)
    message = mq.publish("t", {"n": 1}, key="k", expires_at=expires_at)
    before = mq.value("select published_at from penstock.browse_topic('t')")
    bury(mq)
    advance(mq.db, seconds=3600)
    assert mq("requeue_dlq_messages", "q") == 1
    assert not has_lapsed(mq)
    assert lapse(mq) == 0

    # Through a claim and back, as often as it takes.
    for _ in range(2):
        (row,) = mq.consume("q")
        assert (row.message_id, row.published_at) == (message, before)
        assert mq("release_message", "q", message, "me")
        assert lapse(mq) == 0
    advance(mq.db, seconds=250 if retention else 850)
    assert [row.message_id for row in mq.consume("q")] == [message]
    assert mq("release_message", "q", message, "me")
    advance(mq.db, seconds=100)
    assert mq.consume("q") == []
    assert mq.state("q", message) == "done"
    assert has_lapsed(mq)
    lapse(mq)
    assert not has_lapsed(mq)
    assert mq.value("select count(*) from penstock_data.renewals") == 0


def test_a_requeued_dead_letter_dies_and_is_requeued_again(mq: Caller) -> None:
    create(mq)
    message = mq.publish("t", 1, expires_at=mq.at(seconds=90))
    for _ in range(3):
        bury(mq)
        assert mq.state("q", message) == "dead"
        assert mq.value("select count(*) from penstock_data.renewals") == 0
        advance(mq.db, seconds=3600)
        assert mq("requeue_dlq_messages", "q", [message]) == 1
    assert mq.payloads("q") == [1]


def test_a_requeue_does_not_change_the_message_for_other_queues(mq: Caller) -> None:
    create(mq)
    create(mq, name="other")
    mq.publish("t", 1, expires_at=mq.at(seconds=90))
    bury(mq)
    advance(mq.db, seconds=91)
    assert mq("requeue_dlq_messages", "q") == 1
    assert mq.consume("other") == []
    assert mq.payloads("q") == [1]


@pytest.mark.parametrize("expires_at", ["infinity", "294000-01-01", "0.001"])
def test_any_expiry_can_be_requeued_and_moved(mq: Caller, expires_at: str) -> None:
    create(mq)
    mq("create_queue", "other")
    moment = mq.at(seconds=60) if expires_at == "0.001" else expires_at
    for payload in (1, 2):
        mq.publish("t", payload, expires_at=moment)
    bury(mq)
    if expires_at == "0.001":
        mq.db.execute(
            "update penstock_data.dead_letters set expires_at = published_at + interval '1 ms'"
        )
    first, _ = mq.column("list_dlq_messages", "q") and mq.query(
        "select message_id from penstock.list_dlq_messages('q')"
    )
    assert mq("requeue_dlq_messages", "q", [first.message_id]) == 1
    assert mq("move_dlq_messages", "q", "other") == 1
    assert (mq.payloads("q"), mq.payloads("other")) == ([1], [2])


def test_one_dead_letter_whose_time_is_over_does_not_keep_the_others_from_moving(
    mq: Caller,
) -> None:
    create(mq)
    mq("create_queue", "other")
    mq.publish("t", 1, expires_at=mq.at(seconds=90))
    mq.publish("t", 2)
    bury(mq)
    advance(mq.db, seconds=3600)
    assert mq("move_dlq_messages", "q", "other") == 2
    one, two = mq.rows("browse_topic", "other")
    left = (one.expires_at - mq.at(seconds=0)).total_seconds()
    assert 80 < left <= 90
    assert two.expires_at is None
    assert mq.payloads("other") == [1, 2]


def test_a_requeued_dead_letter_can_move_with_the_time_that_it_has_left(mq: Caller) -> None:
    create(mq)
    mq("create_queue", "other")
    mq.publish("t", 1, expires_at=mq.at(seconds=900))
    bury(mq)
    advance(mq.db, seconds=3600)
    assert mq("requeue_dlq_messages", "q") == 1
    advance(mq.db, seconds=300)
    assert mq("move_messages", "q", "other") == 1
    (moved,) = mq.rows("browse_topic", "other")
    assert 590 < (moved.expires_at - mq.at(seconds=0)).total_seconds() <= 600
    assert mq.payloads("other") == [1]
