"""consume_message, consume_messages_batch, browse_messages: claims and what they promise."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from tests.fixtures.clock import advance
from tests.fixtures.maintenance import maintain
from tests.sql.refusals import nothing_changes

if TYPE_CHECKING:
    from tests.fixtures.databases import Connect
    from tests.sql.caller import Caller

COLUMNS = [
    "message_id",
    "payload",
    "headers",
    "key",
    "priority",
    "delivery_attempts",
    "vt",
    "published_at",
    "correlation_id",
    "tenant_id",
]


@pytest.fixture(autouse=True)
def queue(mq: Caller) -> None:
    mq("create_queue", "q", "t")


@pytest.mark.parametrize(
    "call", ["consume_message('q', 'me', 30)", "consume_messages_batch('q', 'me', 30, 5)"]
)
def test_consuming_returns_the_columns_of_the_contract(mq: Caller, call: str) -> None:
    cursor = mq.db.execute(f"select * from penstock.{call}".encode())
    assert [column.name for column in cursor.description or ()] == COLUMNS


def test_consume_message_claims_one_message_for_thirty_seconds(mq: Caller) -> None:
    mq.publish_many("t", [1, 2])
    (row,) = mq.rows("consume_message", "q", "me")
    assert (row.payload, row.delivery_attempts) == (1, 1)
    left = mq.value("select %s - clock_timestamp()", row.vt)
    assert timedelta(seconds=25) < left <= timedelta(seconds=30)


def test_empty_queue_gives_no_rows_and_writes_nothing(mq: Caller) -> None:
    with nothing_changes(mq.db):
        assert mq.rows("consume_message", "q", "me") == []
        assert mq.consume("q", 100) == []


def test_messages_come_in_the_order_they_were_published(mq: Caller) -> None:
    mq.publish_many("t", list(range(50)))
    mq.publish("t", 50)
    assert [mq.payloads("q", 20) for _ in range(3)] == [
        list(range(20)),
        list(range(20, 40)),
        list(range(40, 51)),
    ]


@pytest.mark.parametrize("ordering", ["standard", "fifo", "fair"])
def test_a_claim_never_gives_more_than_it_was_asked_for(mq: Caller, ordering: str) -> None:
    mq("create_queue", "o", "t", ordering=ordering)
    for number in range(7):
        mq.publish("t", number, key=str(number), priority=number % 3)
    assert [len(mq.consume("o", 3)) for _ in range(4)] == [3, 3, 1, 0]


def test_claimed_message_is_given_to_nobody_else_until_its_deadline(mq: Caller) -> None:
    mq.publish("t", 1)
    (first,) = mq.consume("q", token="a", vt=30)
    advance(mq.db, seconds=29)
    assert mq.consume("q", token="b") == []
    advance(mq.db, seconds=2)
    (again,) = mq.consume("q", token="b", vt=30)
    assert (again.message_id, again.delivery_attempts) == (first.message_id, 2)


def test_message_returns_when_its_claim_ends_without_any_maintenance(mq: Caller) -> None:
    ids = mq.publish_many("t", [1, 2, 3])
    assert len(mq.consume("q", vt=10)) == 3
    advance(mq.db, seconds=11)
    found = mq.consume("q")
    assert sorted(r.message_id for r in found) == ids
    assert {r.delivery_attempts for r in found} == {2}


def test_messages_that_come_back_go_ahead_of_the_log(mq: Caller) -> None:
    mq.publish_many("t", [1, 2])
    mq.consume("q", 1, vt=5)
    advance(mq.db, seconds=6)
    assert mq.payloads("q") == [1, 2]


def test_maintain_takes_back_expired_claims_of_an_idle_queue(mq: Caller) -> None:
    message_id = mq.publish("t", 1)
    mq.consume("q", vt=5)
    advance(mq.db, seconds=6)
    assert mq.state("q", message_id) == "claimed"
    done = maintain(mq.db)
    assert done["claims taken back"] == 1
    assert mq.state("q", message_id) == "waiting"
    assert len(mq.consume("q")) == 1


def test_visibility_of_zero_seconds_gives_the_message_again_at_once(mq: Caller) -> None:
    mq.publish("t", 1)
    assert len(mq.consume("q", vt=0)) == 1
    assert [r.delivery_attempts for r in mq.consume("q")] == [2]


def test_consumers_of_one_queue_share_and_queues_do_not(mq: Caller) -> None:
    mq("create_queue", "other", "t")
    mq.publish_many("t", [1, 2, 3, 4])
    assert mq.payloads("q", 2, token="a") == [1, 2]
    assert mq.payloads("q", 2, token="b") == [3, 4]
    assert mq.payloads("other", 10) == [1, 2, 3, 4]


def test_one_token_may_hold_several_claims(mq: Caller) -> None:
    ids = mq.publish_many("t", [1, 2, 3, 4])
    mq.consume("q", 2)
    mq.consume("q", 2)
    assert sorted(mq.column("ack_messages", "q", ids, "me")) == ids


def test_message_is_in_exactly_one_place(mq: Caller) -> None:
    mq("create_queue", "p", "t", max_delivery_attempts=1)
    ids = mq.publish_many("t", list(range(10)))
    later = mq.publish("t", "later", deliver_after=mq.at(seconds=60))
    claimed = mq.consume("p", 6)
    mq.ack("p", claimed[0].message_id)
    mq.nack("p", claimed[1].message_id)
    mq("release_message", "p", claimed[2].message_id, "me")
    count = mq.statistics("p")
    assert count.total_count + count.dead_count == 11
    states = {message_id: mq.state("p", message_id) for message_id in [*ids, later]}
    expected = ["done", "dead", "waiting", *["claimed"] * 3, *["waiting"] * 4, "delayed"]
    assert list(states.values()) == expected


def test_claims_of_a_large_backlog_give_every_message_once(mq: Caller) -> None:
    mq.publish_many("t", list(range(2500)))
    assert mq.drain("q", batch=333) == list(range(2500))
    assert mq.consume("q") == []


def test_browse_messages_shows_all_states_and_claims_nothing(mq: Caller) -> None:
    ids = mq.publish_many("t", ["a", "b", "c"], headers=['{"h": 1}'], keys=["k"])
    later = mq.publish("t", "d", deliver_after=mq.at(seconds=60))
    mq.ack("q", mq.consume("q", 1)[0].message_id)
    mq.consume("q", 1)
    with nothing_changes(mq.db):
        rows = mq.rows("browse_messages", "q")
    assert [(r.message_id, r.state, r.payload) for r in rows] == [
        (ids[1], "claimed", "b"),
        (ids[2], "waiting", "c"),
        (later, "delayed", "d"),
    ]
    assert [r.delivery_attempts for r in rows] == [1, 0, 0]
    assert (rows[0].headers, rows[0].key) == ({"h": 1}, "k")


def test_browse_messages_goes_page_by_page(mq: Caller) -> None:
    ids = mq.publish_many("t", [1, 2, 3, 4, 5])
    first = mq.rows("browse_messages", "q", page_size=2)
    second = mq.rows("browse_messages", "q", first[-1].message_id, 2)
    assert [r.message_id for r in first + second] == ids[:4]
    assert mq.rows("browse_messages", "q", ids[-1], 2) == []


def test_claim_goes_ahead_of_another_claim_that_stays_open(mq: Caller, connect: Connect) -> None:
    mq("configure", "lock_wait", "50 ms")
    mq.publish_many("t", [1, 2])
    other = connect(autocommit=False)
    other.execute("select * from penstock.consume_message('q', 'other', 30)")
    assert mq.payloads("q") == [2]
    (check,) = [r for r in mq.rows("health") if r.name == "claim locks"]
    assert check.detail is not None
    other.rollback()
    assert mq.payloads("q") == [1]


def test_claim_waits_no_longer_than_lock_wait_for_the_claim_lock(
    mq: Caller, connect: Connect
) -> None:
    mq("configure", "lock_wait", "50 ms")
    mq.publish_many("t", [1])
    other = connect(autocommit=False)
    other.execute("select penstock_data.lock_queue('q')")
    assert mq.consume("q") == []
    other.commit()
    assert mq.payloads("q") == [1]


def test_lock_timeout_of_the_caller_survives_a_claim(mq: Caller, connect: Connect) -> None:
    mq("configure", "lock_wait", "50 ms")
    mq.publish_many("t", [1, 2])
    other = connect(autocommit=False)
    mine = connect(autocommit=False)
    mine.execute("set lock_timeout = '7s'")
    mine.commit()
    other.execute("select * from penstock.consume_message('q', 'other', 30)")
    mine.execute("select * from penstock.consume_message('q', 'mine', 30)")
    assert mine.execute("show lock_timeout").fetchone() == ("7s",)


def test_claim_of_a_retried_message_ends_in_time_in_an_idle_queue(mq: Caller) -> None:
    mq("create_queue", "idle")
    mq.publish("idle", 1)
    (first,) = mq.rows("consume_messages_batch", "idle", "first", 600, 10)
    advance(mq.db, seconds=20)
    assert not mq.rows("consume_messages_batch", "idle", "nobody", 600, 10)
    mq("nack_message", "idle", first.message_id, "first", 0)
    assert len(mq.rows("consume_messages_batch", "idle", "second", 2, 10)) == 1
    advance(mq.db, seconds=3)
    (third,) = mq.rows("consume_messages_batch", "idle", "third", 600, 10)
    assert (third.message_id, third.delivery_attempts) == (first.message_id, 3)
