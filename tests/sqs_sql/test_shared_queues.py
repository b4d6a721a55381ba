"""SQS and the engine share queues: what one side sends, the other receives."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.fixtures import clock
from tests.fixtures.maintenance import maintain
from tests.sql.caller import Caller
from tests.sqs_sql.caller import Sqs, redrive
from tests.sqs_sql.digests import attributes_md5, text

if TYPE_CHECKING:
    import psycopg

    Session = psycopg.Connection[Any]


@pytest.fixture
def mq(db: Session) -> Caller:
    """The engine's own functions."""
    return Caller(db)


def test_the_engine_consumes_what_sqs_sent(sqs: Sqs, mq: Caller) -> None:
    sqs.create("q")
    sqs.send(body='{"order": 7}', MessageAttributes={"region": text("eu")})

    (message,) = mq.consume("q")

    assert message.payload == '{"order": 7}'
    assert message.headers == {"sqs": {"attributes": {"region": text("eu")}}}
    assert mq.ack("q", message.message_id)
    assert sqs.counts() == (0, 0, 0)


def test_sqs_receives_what_the_engine_published(sqs: Sqs, mq: Caller) -> None:
    mq("create_queue", "q")
    mq.publish(
        "q", {"order": 7}, headers={"region": "eu", "n": 5, "deep": {}, "no good": "x"}, key="k"
    )
    mq.publish("q", "just text")

    first, second = sqs.receive(AttributeNames=["All"], MessageAttributeNames=["All"])

    assert json.loads(first["Body"]) == {"order": 7}
    attributes = {"region": text("eu"), "n": text("5", "Number")}
    assert first["MessageAttributes"] == attributes
    assert first["MD5OfMessageAttributes"] == attributes_md5(attributes)
    assert first["Attributes"]["MessageGroupId"] == "k"
    assert second["Body"] == "just text"
    sqs.delete(first)
    sqs.delete(second)
    assert mq.statistics("q").completed_count == 2


def test_a_queue_of_the_engine_has_the_defaults_of_sqs(sqs: Sqs, mq: Caller) -> None:
    mq("create_queue", "q")

    found = sqs.attributes()

    assert (found["VisibilityTimeout"], found["MessageRetentionPeriod"]) == ("30", "345600")
    assert sqs("GetQueueUrl", QueueName="q")["QueueUrl"].endswith("/q")
    assert sqs("CreateQueue", QueueName="q", Attributes={"DelaySeconds": "0"})
    sqs.set(VisibilityTimeout="60")
    sqs("TagQueue", QueueUrl="q", Tags={"a": "b"})
    assert sqs.attributes()["VisibilityTimeout"] == "60"
    assert mq.value("select retention from penstock.list_queues()") is None


def test_names_that_sqs_does_not_have_stay_out_of_its_sight(sqs: Sqs, mq: Caller) -> None:
    for name in ("with space", "x.fifo", "a/b", "111111111111/eu-west-1/q"):
        mq("create_queue", name)

    assert sqs("ListQueues") == {}
    assert sqs.refusal("ReceiveMessage", QueueUrl="x.fifo").shape == "QueueDoesNotExist"


def test_a_topic_fans_out_to_sqs_queues(sqs: Sqs, mq: Caller) -> None:
    for name in ("a", "b"):
        mq("create_queue", name, "orders")

    mq.publish("orders", "event")

    assert sqs.bodies("a") == sqs.bodies("b") == ["event"]


def test_what_is_sent_to_one_queue_of_a_topic_is_for_it_alone(sqs: Sqs, mq: Caller) -> None:
    for name in ("a", "b"):
        mq("create_queue", name, "orders")
    sqs.send("a", "direct")
    sqs.send("a", "later", DelaySeconds=10)
    mq.publish("orders", "event")

    assert sorted(sqs.bodies("a")) == ["direct", "event"]
    assert sqs.bodies("b") == ["event"]
    maintain(mq.db)
    clock.advance(sqs.db, 11)
    assert sqs.bodies("a") == ["later"]


def test_what_is_sent_to_one_fifo_queue_of_a_topic_is_for_it_alone(sqs: Sqs, mq: Caller) -> None:
    for name in ("a.fifo", "b.fifo"):
        mq("create_queue", name, "orders", ordering="fifo")
    sqs.post("g", "one", "two", "one", queue="a.fifo")

    found = sqs.receive("a.fifo")
    for message in found:
        sqs.delete(message, "a.fifo")
    found += sqs.receive("a.fifo")

    assert [message["Body"] for message in found] == ["one", "two"]
    assert sqs.receive("b.fifo") == []


def test_redrive_brings_messages_to_one_queue_of_a_topic(sqs: Sqs, mq: Caller) -> None:
    mq("create_queue", "dead", "graveyard")
    mq("create_queue", "other", "graveyard")
    sqs.create("q", RedrivePolicy=redrive("dead", 1))
    sqs.send(body="poison")
    sqs.receive(VisibilityTimeout=0)
    sqs.receive()

    assert sqs.bodies("dead") == ["poison"]
    assert sqs.bodies("other") == []


def test_a_deleted_queue_takes_its_own_topic_along(sqs: Sqs, mq: Caller) -> None:
    sqs.create("q")
    sqs("DeleteQueue", QueueUrl="q")

    assert mq.rows("list_topics") == []


def test_a_topic_that_others_read_stays(sqs: Sqs, mq: Caller) -> None:
    sqs.create("q")
    mq("create_queue", "audit", "q")
    sqs.send(body="x")

    sqs("DeleteQueue", QueueUrl="q")

    assert mq.payloads("audit") == ["x"]
    mq("create_topic", "mine")
    sqs.create("mine")
    sqs("DeleteQueue", QueueUrl="mine")
    assert [topic.name for topic in mq.rows("list_topics")] == ["mine", "q"]


def test_an_engine_token_and_a_receipt_handle_do_not_disturb_each_other(
    sqs: Sqs, mq: Caller
) -> None:
    sqs.create("q")
    sqs.send(body="a")
    sqs.send(body="b")
    (mine,) = mq.consume("q", 1)
    (theirs,) = sqs.receive()

    assert mq.ack("q", mine.message_id)
    sqs.delete(theirs)

    assert sqs.counts() == (0, 0, 0)
    assert mq.statistics("q").completed_count == 2


def test_deleted_messages_do_not_come_back_after_maintenance(sqs: Sqs, mq: Caller) -> None:
    sqs.create("q", VisibilityTimeout="5")
    sqs.send(body="a")
    (old,) = sqs.receive()
    clock.advance(sqs.db, 6)
    maintain(mq.db)
    sqs.delete(old)
    maintain(mq.db)

    assert sqs.receive() == []
    assert mq.state("q", 1) == "done"
