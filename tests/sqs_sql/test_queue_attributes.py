"""The attributes of queues: names, ranges, defaults, counts."""

from __future__ import annotations

import json

import pytest

from tests.fixtures import clock
from tests.sqs_sql.caller import ARN, Sqs, redrive

DEFAULTS = {
    "DelaySeconds": "0",
    "MaximumMessageSize": "1048576",
    "MessageRetentionPeriod": "345600",
    "ReceiveMessageWaitTimeSeconds": "0",
    "SqsManagedSseEnabled": "true",
    "VisibilityTimeout": "30",
}
FIFO_DEFAULTS = {
    "ContentBasedDeduplication": "false",
    "DeduplicationScope": "queue",
    "FifoQueue": "true",
    "FifoThroughputLimit": "perQueue",
}
COUNTS = {
    "ApproximateNumberOfMessages": "0",
    "ApproximateNumberOfMessagesDelayed": "0",
    "ApproximateNumberOfMessagesNotVisible": "0",
}
STAMPS = ("CreatedTimestamp", "LastModifiedTimestamp")


@pytest.mark.parametrize(("name", "more"), [("q", {}), ("q.fifo", FIFO_DEFAULTS)])
def test_a_new_queue_has_the_defaults_of_sqs(sqs: Sqs, name: str, more: dict[str, str]) -> None:
    sqs.create(name)

    found = sqs.attributes(name)

    assert all(found.pop(stamp).isdigit() for stamp in STAMPS)
    assert found == {**DEFAULTS, **more, **COUNTS, "QueueArn": ARN + name}


def test_attributes_are_given_by_name(sqs: Sqs) -> None:
    sqs.create("q", VisibilityTimeout="60")

    assert sqs.attributes(names=["VisibilityTimeout"]) == {"VisibilityTimeout": "60"}
    assert sqs("GetQueueAttributes", QueueUrl="q") == {}
    assert sqs("GetQueueAttributes", QueueUrl="q", AttributeNames=["Policy"]) == {}
    refusal = sqs.refusal("GetQueueAttributes", QueueUrl="q", AttributeNames=["Colour"])
    assert refusal.code == "InvalidAttributeName"
    assert refusal.message == "Unknown Attribute Colour."


@pytest.mark.parametrize(
    ("name", "low", "high"),
    [
        ("VisibilityTimeout", 0, 43200),
        ("DelaySeconds", 0, 900),
        ("MessageRetentionPeriod", 60, 1209600),
        ("ReceiveMessageWaitTimeSeconds", 0, 20),
        ("MaximumMessageSize", 1024, 1048576),
        ("KmsDataKeyReusePeriodSeconds", 60, 86400),
    ],
)
def test_whole_numbers_have_their_ranges(sqs: Sqs, name: str, low: int, high: int) -> None:
    sqs.create("q")

    for value in (low, high):
        sqs.set(**{name: str(value)})
        assert sqs.attributes()[name] == str(value)
    for value in (low - 1, high + 1, "x", "1.5"):
        refusal = sqs.refusal("SetQueueAttributes", QueueUrl="q", Attributes={name: str(value)})
        assert refusal.code == "InvalidAttributeValue"
        assert refusal.message == f"Invalid value for the parameter {name}."
    assert sqs.attributes()[name] == str(high)


def test_unknown_and_fixed_attributes_cannot_be_set(sqs: Sqs) -> None:
    sqs.create("q")

    for name in ("Colour", "QueueArn", "CreatedTimestamp", "ApproximateNumberOfMessages"):
        for attributes in ({name: "1"}, {name: ""}):
            refusal = sqs.refusal("SetQueueAttributes", QueueUrl="q", Attributes=attributes)
            assert (refusal.code, refusal.message) == (
                "InvalidAttributeName",
                f"Unknown Attribute {name}.",
            )


def test_attributes_of_fifo_queues_are_unknown_to_standard_queues(sqs: Sqs) -> None:
    sqs.create("q")

    for name, value in FIFO_DEFAULTS.items():
        refusal = sqs.refusal("SetQueueAttributes", QueueUrl="q", Attributes={name: value})
        assert refusal.code == "InvalidAttributeName"
    for value in ("false", "x"):
        refusal = sqs.refusal("CreateQueue", QueueName="r", Attributes={"FifoQueue": value})
        assert refusal.message == "Unknown Attribute FifoQueue."


def test_a_fifo_queue_stays_one(sqs: Sqs) -> None:
    sqs.create("q.fifo")

    sqs.set("q.fifo", FifoQueue="true")
    refusal = sqs.refusal(
        "SetQueueAttributes", QueueUrl="q.fifo", Attributes={"FifoQueue": "false"}
    )

    assert refusal.code == "InvalidAttributeValue"
    assert refusal.message == (
        "Invalid value for the parameter FifoQueue. Reason: Modifying queue type is not supported."
    )


def test_limits_per_group_need_deduplication_per_group(sqs: Sqs) -> None:
    sqs.create("q.fifo")

    alone = {"FifoThroughputLimit": "perMessageGroupId"}
    refusal = sqs.refusal("SetQueueAttributes", QueueUrl="q.fifo", Attributes=alone)
    assert refusal.code == "InvalidAttributeValue"
    sqs.set("q.fifo", DeduplicationScope="messageGroup", **alone)

    assert sqs.attributes("q.fifo")["FifoThroughputLimit"] == "perMessageGroupId"


def test_an_empty_text_removes_an_attribute(sqs: Sqs) -> None:
    sqs.create("q", VisibilityTimeout="60", KmsMasterKeyId="key")
    sqs.create("dead")
    sqs.set(RedrivePolicy=redrive("dead", 1), RedriveAllowPolicy='{"redrivePermission":"denyAll"}')

    sqs.set(VisibilityTimeout="", KmsMasterKeyId="", RedrivePolicy="", RedriveAllowPolicy="")

    found = sqs.attributes()
    assert found["VisibilityTimeout"] == "30"
    assert not {"KmsMasterKeyId", "RedrivePolicy", "RedriveAllowPolicy"} & found.keys()


def test_there_is_one_kind_of_encryption_at_a_time(sqs: Sqs) -> None:
    sqs.create("q", KmsMasterKeyId="key", KmsDataKeyReusePeriodSeconds="6000")

    assert sqs.attributes()["SqsManagedSseEnabled"] == "false"
    both = {"SqsManagedSseEnabled": "true"}
    refusal = sqs.refusal("SetQueueAttributes", QueueUrl="q", Attributes=both)
    assert refusal.code == "InvalidAttributeName"
    assert refusal.message.startswith("You can use one type of server-side encryption (SSE)")


def test_a_change_is_stamped(sqs: Sqs) -> None:
    sqs.create("q")
    clock.advance(sqs.db, 100)

    sqs.set(VisibilityTimeout="1")

    found = sqs.attributes()
    assert int(found["LastModifiedTimestamp"]) - int(found["CreatedTimestamp"]) in {99, 100, 101}


def test_a_change_names_attributes(sqs: Sqs) -> None:
    sqs.create("q")

    for request in ({}, {"Attributes": {}}):
        refusal = sqs.refusal("SetQueueAttributes", QueueUrl="q", **request)
        assert refusal.message == "The request must contain the parameter Attributes."


def test_a_refused_change_changes_nothing(sqs: Sqs) -> None:
    sqs.create("q")

    sqs.refusal(
        "SetQueueAttributes",
        QueueUrl="q",
        Attributes={"DelaySeconds": "1", "VisibilityTimeout": "x"},
    )

    assert sqs.attributes()["DelaySeconds"] == "0"


def test_counts_tell_visible_in_flight_and_delayed(sqs: Sqs) -> None:
    sqs.create("q")
    for _ in range(6):
        sqs.send()
    sqs.send(DelaySeconds=10)
    sqs.send(DelaySeconds=100)
    assert sqs.counts() == (6, 0, 2)

    held = sqs.receive(count=3)
    sqs.receive(count=1, VisibilityTimeout=5)
    assert sqs.counts() == (2, 4, 2)
    sqs.delete(held[0])
    assert sqs.counts() == (2, 3, 2)
    clock.advance(sqs.db, 11)

    assert sqs.counts() == (4, 2, 1)


def test_a_policy_must_be_json_with_statements(sqs: Sqs) -> None:
    sqs.create("q")
    allow = {"Effect": "Allow", "Principal": "*", "Action": "SQS:*", "Resource": "*"}
    policy = json.dumps({"Version": "2012-10-17", "Statement": [allow]})

    sqs.set(Policy=policy)

    assert sqs.attributes()["Policy"] == policy
    for bad in ("x", "[]", "{}", '{"Statement": [{"Effect": "Perhaps", "Action": "*"}]}'):
        refusal = sqs.refusal("SetQueueAttributes", QueueUrl="q", Attributes={"Policy": bad})
        assert refusal.code == "InvalidAttributeValue", bad
    for many in (
        [allow] * 21,
        [{**allow, "Action": ["SQS:SendMessage"] * 8}],
        [{**allow, "Principal": {"AWS": ["111111111111"] * 51}}],
        [{**allow, "Condition": {f"Bool{number}": {} for number in range(11)}}],
        [{**allow, "Resource": "x" * 8192}],
    ):
        attributes = {"Policy": json.dumps({"Statement": many})}
        refusal = sqs.refusal("SetQueueAttributes", QueueUrl="q", Attributes=attributes)
        assert (refusal.code, refusal.status) == ("OverLimit", 403)
