"""Dead-letter queues: what goes there, when, and what it keeps."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.fixtures import clock
from tests.sqs_sql.caller import ARN, Sqs, redrive
from tests.sqs_sql.digests import text


@pytest.fixture
def q(sqs: Sqs) -> Sqs:
    sqs.create("dead")
    sqs.create("q", VisibilityTimeout="5", RedrivePolicy=redrive("dead", 2))
    return sqs


def wear_out(sqs: Sqs, queue: str = "q", times: int = 2) -> None:
    """Receive everything so often that the next receive moves it."""
    for _ in range(times):
        assert sqs.receive(queue)
        clock.advance(sqs.db, 6)


def test_a_message_moves_when_it_was_received_too_often(q: Sqs) -> None:
    q.send(body="poison")
    wear_out(q)
    assert q.counts("dead") == (0, 0, 0)

    assert q.receive() == []

    assert q.counts("q") == (0, 0, 0)
    assert q.bodies("dead") == ["poison"]


def test_a_moved_message_is_still_itself(q: Sqs) -> None:
    attributes = {"a": text("b")}
    trace = {"AWSTraceHeader": text("Root=1")}
    sent = q.send(body="poison", MessageAttributes=attributes, MessageSystemAttributes=trace)
    (first,) = q.receive(AttributeNames=["All"], VisibilityTimeout=0)
    q.receive(VisibilityTimeout=0)
    q.receive()

    (moved,) = q.receive("dead", AttributeNames=["All"], MessageAttributeNames=["All"])

    assert moved["MessageId"] == sent["MessageId"]
    assert moved["MessageAttributes"] == attributes
    kept = ("SentTimestamp", "SenderId", "AWSTraceHeader", "ApproximateFirstReceiveTimestamp")
    for name in kept:
        assert moved["Attributes"][name] == first["Attributes"][name]
    assert moved["Attributes"]["ApproximateReceiveCount"] == "3"
    assert moved["Attributes"]["DeadLetterQueueSourceArn"] == ARN + "q"


def test_others_take_the_places_of_what_moves(q: Sqs) -> None:
    for body in ("bad1", "bad2"):
        q.send(body=body)
    wear_out(q)
    for number in range(10):
        q.send(body=str(number))

    assert q.bodies() == [str(number) for number in range(10)]
    assert sorted(q.bodies("dead")) == ["bad1", "bad2"]


def test_a_message_that_is_deleted_on_its_last_receive_does_not_move(q: Sqs) -> None:
    q.send()
    wear_out(q, times=1)
    (message,) = q.receive()

    q.delete(message)

    clock.advance(q.db, 6)
    assert q.receive() == []
    assert q.counts("dead") == (0, 0, 0)


def test_visibility_zero_counts_as_a_receive(q: Sqs) -> None:
    q.send()

    received = [q.bodies(VisibilityTimeout=0) for _ in range(3)]

    assert received == [["x"], ["x"], []]
    assert q.counts("dead") == (1, 0, 0)


def test_a_dead_letter_queue_counts_age_from_the_first_sending(q: Sqs) -> None:
    q.set("dead", MessageRetentionPeriod="60")
    q.send()
    clock.advance(q.db, 45)
    wear_out(q)
    q.receive()
    assert q.counts("dead") == (1, 0, 0)

    clock.advance(q.db, 10)

    assert q.receive("dead") == []


def test_a_fifo_dead_letter_queue_counts_age_anew_and_keeps_the_group(sqs: Sqs) -> None:
    sqs.create("dead.fifo", MessageRetentionPeriod="60")
    sqs.create("q.fifo", VisibilityTimeout="5", RedrivePolicy=redrive("dead.fifo", 1))
    sent = sqs.send("q.fifo", "poison", MessageGroupId="g", MessageDeduplicationId="d")
    clock.advance(sqs.db, 55)
    wear_out(sqs, "q.fifo", 1)
    assert sqs.receive("q.fifo") == []
    clock.advance(sqs.db, 50)

    (moved,) = sqs.receive("dead.fifo", AttributeNames=["All"])

    assert moved["MessageId"] == sent["MessageId"]
    assert moved["Attributes"]["MessageGroupId"] == "g"
    assert moved["Attributes"]["MessageDeduplicationId"] == sent["MessageId"]
    assert moved["Attributes"]["DeadLetterQueueSourceArn"] == ARN + "q.fifo"


def test_a_fifo_group_goes_on_when_its_head_moves(sqs: Sqs) -> None:
    sqs.create("dead.fifo")
    sqs.create("q.fifo", VisibilityTimeout="5", RedrivePolicy=redrive("dead.fifo", 1))
    sqs.post("g", "bad", "good")
    assert sqs.bodies("q.fifo", 1) == ["bad"]
    clock.advance(sqs.db, 6)

    found = sqs.bodies("q.fifo", 1) or sqs.bodies("q.fifo", 1)

    assert found == ["good"]
    assert sqs.bodies("dead.fifo") == ["bad"]


def test_without_its_target_a_queue_goes_on_delivering(q: Sqs) -> None:
    q("DeleteQueue", QueueUrl="dead")
    q.send()
    wear_out(q)

    assert q.bodies() == ["x"]


def test_a_policy_may_say_its_count_as_text(q: Sqs) -> None:
    q.set(RedrivePolicy=redrive("dead", "7"))

    redrive_policy = json.loads(q.attributes()["RedrivePolicy"])

    assert redrive_policy == {"deadLetterTargetArn": ARN + "dead", "maxReceiveCount": 7}


def test_policies_that_cannot_work_are_refused(q: Sqs) -> None:
    q.create("dead.fifo")
    cases: dict[str, str] = {
        "x": "Redrive policy is not a valid JSON map.",
        "[]": "Redrive policy is not a valid JSON map.",
        '{"maxReceiveCount": 1}': "does not contain mandatory attribute: deadLetterTargetArn.",
        json.dumps({"deadLetterTargetArn": ARN + "dead"}): "mandatory attribute: maxReceiveCount.",
        redrive("dead", 0): "Invalid value for maxReceiveCount: 0",
        redrive("dead", 1001): "Invalid value for maxReceiveCount: 1001",
        redrive("dead", "x"): "Invalid value for maxReceiveCount: x",
        redrive("none", 1): "Dead letter target does not exist.",
        redrive("dead.fifo", 1): "Dead-letter queue must be a standard queue.",
        redrive("q", 1).replace("000000000000", "111111111111"): "the same account and region.",
        redrive("q", 1).replace("us-east-1", "eu-west-1"): "the same account and region.",
        '{"deadLetterTargetArn": "dummy", "maxReceiveCount": 42}': (
            "Invalid value for deadLetterTargetArn."
        ),
    }
    for policy, message in cases.items():
        attributes = {"RedrivePolicy": policy}
        refusal = q.refusal("SetQueueAttributes", QueueUrl="q", Attributes=attributes)
        assert refusal.code == "InvalidParameterValue"
        assert refusal.message.startswith(f"Value {policy} for parameter RedrivePolicy is invalid.")
        assert message in refusal.message


def test_a_queue_chooses_whose_dead_letters_it_takes(q: Sqs) -> None:
    q.create("other")
    policy = {"RedrivePolicy": redrive("dead", 1)}

    def is_refused() -> bool:
        q.set("other", RedrivePolicy="")
        (answer,) = q.many("SetQueueAttributes", {"QueueUrl": "other", "Attributes": policy})
        message = answer.get("__error", {}).get("message", "")
        assert message == "" or message.endswith("to use it as a dead-letter queue.")
        return bool(message)

    q.set("dead", RedriveAllowPolicy='{"redrivePermission":"denyAll"}')
    assert is_refused()
    by_queue: dict[str, Any] = {"redrivePermission": "byQueue", "sourceQueueArns": [ARN + "q"]}
    q.set("dead", RedriveAllowPolicy=json.dumps(by_queue))
    assert is_refused()
    by_queue["sourceQueueArns"] = [ARN + "q", ARN + "other"]
    q.set("dead", RedriveAllowPolicy=json.dumps(by_queue))
    assert not is_refused()
    q.set("dead", RedriveAllowPolicy='{"redrivePermission":"allowAll"}')
    assert not is_refused()


def test_redrive_allow_policies_are_checked(q: Sqs) -> None:
    for bad in (
        "x",
        "{}",
        '{"redrivePermission":"some"}',
        '{"redrivePermission":"byQueue"}',
        '{"redrivePermission":"byQueue","sourceQueueArns":[]}',
        '{"redrivePermission":"byQueue","sourceQueueArns":["q"]}',
        json.dumps({"redrivePermission": "byQueue", "sourceQueueArns": [ARN + "q"] * 11}),
        json.dumps({"redrivePermission": "denyAll", "sourceQueueArns": [ARN + "q"]}),
    ):
        attributes = {"RedriveAllowPolicy": bad}
        refusal = q.refusal("SetQueueAttributes", QueueUrl="dead", Attributes=attributes)
        assert refusal.code == "InvalidParameterValue", bad


def test_the_sources_of_a_dead_letter_queue_are_listed(q: Sqs) -> None:
    q.create("a", RedrivePolicy=redrive("dead", 5))
    q.create("b")

    first = q("ListDeadLetterSourceQueues", QueueUrl="dead", MaxResults=1)
    rest = q("ListDeadLetterSourceQueues", QueueUrl="dead", NextToken=first["NextToken"])

    assert [url[-2:] for url in first["queueUrls"] + rest["queueUrls"]] == ["/a", "/q"]
    assert q("ListDeadLetterSourceQueues", QueueUrl="b") == {"queueUrls": []}
