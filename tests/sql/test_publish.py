"""publish_message and publish_messages."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from tests.fixtures.clock import advance
from tests.fixtures.maintenance import maintain
from tests.sql.refusals import nothing_changes, refused

if TYPE_CHECKING:
    from tests.sql.caller import Caller


@pytest.fixture(autouse=True)
def queue(mq: Caller) -> None:
    mq("create_queue", "q", "t")


def test_publish_message_returns_a_bigint_id_that_the_consumer_sees(mq: Caller) -> None:
    assert mq.value("select pg_typeof(penstock.publish_message('t', '1'))::text") == "bigint"
    message_id = mq.publish("t", "second")
    assert [row.message_id for row in mq.consume("q")][-1] == message_id


def test_consumer_gets_all_that_was_published_with_the_message(mq: Caller) -> None:
    expires_at = mq.at(seconds=3600)
    message_id = mq.publish(
        "t",
        {"order": 7, "lines": [1, 2.5, None, True, "ü"]},
        headers={"region": "eu"},
        key="customer-7",
        priority=5,
        expires_at=expires_at,
        correlation_id="c-1",
        tenant_id="acme",
    )
    (row,) = mq.rows("consume_message", "q", "me")
    assert row.message_id == message_id
    assert row.payload == {"order": 7, "lines": [1, 2.5, None, True, "ü"]}
    assert (row.headers, row.key, row.priority) == ({"region": "eu"}, "customer-7", 5)
    assert (row.correlation_id, row.tenant_id, row.delivery_attempts) == ("c-1", "acme", 1)
    assert row.vt - row.published_at > timedelta(seconds=29)


@pytest.mark.parametrize("payload", [None, True, 0, "", "text", [], {}, [[[]]], {"a": {"b": []}}])
def test_any_json_value_is_a_payload(mq: Caller, payload: Any) -> None:
    mq.publish("t", payload)
    assert mq.payloads("q") == [payload]


def test_message_of_a_topic_without_queues_is_kept_for_none(mq: Caller) -> None:
    mq("create_topic", "lonely")
    assert mq.publish("lonely", 1) > 0
    mq("create_queue", "late", "lonely")
    assert mq.payloads("late") == []


def test_publish_messages_returns_ids_in_the_order_of_the_payloads(mq: Caller) -> None:
    ids = mq.publish_many("t", list(range(100)))
    assert ids == sorted(ids)
    assert {row.message_id: row.payload for row in mq.consume("q", 100)} == dict(
        zip(ids, range(100), strict=True)
    )


def test_publish_messages_takes_an_element_for_each_payload(mq: Caller) -> None:
    mq.publish_many(
        "t",
        ["a", "b"],
        headers=[None, '{"h": 1}'],
        keys=["k1", None],
        priorities=[0, 9],
        correlation_ids=["c1", "c2"],
        tenant_ids=[None, "t2"],
    )
    found = [
        (r.payload, r.headers, r.key, r.priority, r.correlation_id, r.tenant_id)
        for r in mq.consume("q")
    ]
    assert found == [("b", {"h": 1}, None, 9, "c2", "t2"), ("a", None, "k1", 0, "c1", None)]


def test_publish_messages_takes_one_element_for_all(mq: Caller) -> None:
    mq.publish_many(
        "t",
        [1, 2, 3],
        headers=['{"h": 1}'],
        keys=["k"],
        priorities=[4],
        correlation_ids=["c"],
        tenant_ids=["acme"],
        deliver_after=[mq.at(seconds=60)],
        expires_at=[mq.at(seconds=120)],
    )
    assert mq.consume("q") == []
    advance(mq.db, seconds=61)
    found = mq.consume("q")
    assert [(r.headers, r.key, r.priority, r.correlation_id, r.tenant_id) for r in found] == [
        ({"h": 1}, "k", 4, "c", "acme")
    ] * 3
    advance(mq.db, seconds=60)
    assert mq.consume("q") == []


def test_publish_messages_of_nothing_publishes_nothing(mq: Caller) -> None:
    with nothing_changes(mq.db):
        assert mq.publish_many("t", []) == []


@pytest.mark.parametrize(
    "argument",
    [
        "headers",
        "keys",
        "priorities",
        "correlation_ids",
        "tenant_ids",
        "deliver_after",
        "expires_at",
        "dedupe_keys",
    ],
)
def test_publish_messages_refuses_arrays_of_another_length(mq: Caller, argument: str) -> None:
    values: dict[str, list[Any]] = {"headers": ["{}"], "priorities": [0]}
    moments = {"deliver_after", "expires_at"}
    element = [mq.at(seconds=9)] if argument in moments else values.get(argument, ["x"])
    with nothing_changes(mq.db), refused("PS005", argument, "2 elements", "3 payloads"):
        mq.publish_many("t", [1, 2, 3], **{argument: element * 2})


def test_one_faulty_message_keeps_all_from_being_published(mq: Caller) -> None:
    with nothing_changes(mq.db), refused("PS005", "priority"):
        mq.publish_many("t", [1, 2, 3], priorities=[0, 5000, 0])
    with nothing_changes(mq.db), refused("PS005", "payload must not be null"):
        mq.column("publish_messages", "t", [None])
    with nothing_changes(mq.db), refused("PS007", "dedupe_key"):
        mq.publish_many("t", [1, 2], dedupe_keys=["fine", "x" * 1025])


def test_expired_message_is_never_delivered(mq: Caller) -> None:
    mq("create_queue", "lanes", "t", ordering="fifo")
    lapsing = mq.publish("t", "lapses", expires_at=mq.at(seconds=10))
    mq.publish("t", "stays")
    advance(mq.db, seconds=11)
    for queue in ("q", "lanes"):
        assert mq.payloads(queue) == ["stays"]
        assert mq.state(queue, lapsing) == "done"


def test_message_that_expires_while_it_waits_for_a_retry_is_not_delivered_again(mq: Caller) -> None:
    message_id = mq.publish("t", 1, expires_at=mq.at(seconds=100))
    assert len(mq.consume("q")) == 1
    mq.nack("q", message_id, delay_seconds=200)
    advance(mq.db, seconds=201)
    assert mq.consume("q") == []
    assert mq.state("q", message_id) == "done"
    assert mq.rows("list_dlq_messages") == []


def test_claim_that_outlives_the_expiry_can_still_be_acked(mq: Caller) -> None:
    message_id = mq.publish("t", 1, expires_at=mq.at(seconds=10))
    mq.consume("q", vt=60)
    advance(mq.db, seconds=20)
    assert mq.ack("q", message_id)


def test_queue_retention_lapses_what_nobody_claimed_in_time(mq: Caller) -> None:
    mq("create_queue", "short", "t", retention=timedelta(minutes=1))
    mq("create_queue", "short lanes", "t", retention=timedelta(minutes=1), ordering="fifo")
    old = mq.publish("t", "old")
    advance(mq.db, seconds=61)
    mq.publish("t", "new")
    assert mq.payloads("q") == ["old", "new"]
    for queue in ("short", "short lanes"):
        assert mq.payloads(queue) == ["new"]
        assert mq.state(queue, old) == "done"


@pytest.mark.parametrize("ordering", ["standard", "fifo", "fair"])
def test_maintain_lapses_the_messages_of_a_queue_that_nobody_consumes(
    mq: Caller, ordering: str
) -> None:
    mq("create_queue", "short", "t", retention=timedelta(minutes=1), ordering=ordering)
    mq.publish_many("t", [1, 2, 3])
    advance(mq.db, seconds=61)
    done = maintain(mq.db)
    assert done["messages lapsed"] == 3
    assert mq.statistics("short").pending_count == 0
    mq.publish("t", "new")
    assert mq.payloads("short") == ["new"]


def test_publishing_is_refused_while_the_log_is_full_and_consuming_goes_on(mq: Caller) -> None:
    message_id = mq.publish("t", "x" * 1000)
    mq("configure", "max_log_bytes", "1")
    mq.rows("maintain")
    with nothing_changes(mq.db), refused("PS013", "full"):
        mq.publish("t", 1)
    with nothing_changes(mq.db), refused("PS013", "full"):
        mq.publish_many("t", [1])
    assert [r.message_id for r in mq.consume("q")] == [message_id]
    assert mq.ack("q", message_id)
    mq("configure", "max_log_bytes", None)
    mq.rows("maintain")
    assert mq.publish("t", 2) > message_id
