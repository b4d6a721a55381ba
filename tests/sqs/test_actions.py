"""Every action through boto3, in both protocols."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

import pytest
from botocore.exceptions import ClientError

if TYPE_CHECKING:
    from collections.abc import Callable


def _code(caught: pytest.ExceptionInfo[ClientError]) -> str:
    code: str = caught.value.response["Error"]["Code"]
    return code


def test_a_message_goes_the_whole_way(sqs: Any, new_name: Callable[..., str]) -> None:
    url = sqs.create_queue(QueueName=new_name())["QueueUrl"]
    body = "grüße\r\n\t<&>\"' 😀"
    sent = sqs.send_message(
        QueueUrl=url,
        MessageBody=body,
        MessageAttributes={
            "city": {"DataType": "String", "StringValue": "Zürich"},
            "count": {"DataType": "Number.int", "StringValue": "7"},
            "raw": {"DataType": "Binary", "BinaryValue": bytes(range(256))},
        },
        MessageSystemAttributes={
            "AWSTraceHeader": {"DataType": "String", "StringValue": "Root=1-5e-1"}
        },
    )
    assert sent["MD5OfMessageBody"] == hashlib.md5(body.encode()).hexdigest()
    [message] = sqs.receive_message(
        QueueUrl=url, MessageAttributeNames=["All"], MessageSystemAttributeNames=["All"]
    )["Messages"]
    assert message["Body"] == body
    assert message["MessageId"] == sent["MessageId"]
    assert message["MessageAttributes"]["raw"]["BinaryValue"] == bytes(range(256))
    assert message["MD5OfMessageAttributes"] == sent["MD5OfMessageAttributes"]
    assert message["Attributes"]["AWSTraceHeader"] == "Root=1-5e-1"
    assert message["Attributes"]["ApproximateReceiveCount"] == "1"
    handle = message["ReceiptHandle"]
    sqs.change_message_visibility(QueueUrl=url, ReceiptHandle=handle, VisibilityTimeout=60)
    sqs.delete_message(QueueUrl=url, ReceiptHandle=handle)
    assert "Messages" not in sqs.receive_message(QueueUrl=url)


def test_batches_answer_each_entry(sqs: Any, new_name: Callable[..., str]) -> None:
    url = sqs.create_queue(QueueName=new_name(), Attributes={"VisibilityTimeout": "60"})["QueueUrl"]
    sent = sqs.send_message_batch(
        QueueUrl=url,
        Entries=[{"Id": "a", "MessageBody": "1"}, {"Id": "b", "MessageBody": "bad \x02"}],
    )
    assert [each["Id"] for each in sent["Successful"]] == ["a"]
    assert [each["Code"] for each in sent["Failed"]] == ["InvalidMessageContents"]
    [message] = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10)["Messages"]
    entry = {"Id": "x", "ReceiptHandle": message["ReceiptHandle"]}
    changed = sqs.change_message_visibility_batch(
        QueueUrl=url, Entries=[entry | {"VisibilityTimeout": 90}]
    )
    assert changed["Successful"] == [{"Id": "x"}]
    deleted = sqs.delete_message_batch(
        QueueUrl=url, Entries=[entry, {"Id": "y", "ReceiptHandle": "nonsense"}]
    )
    assert deleted["Successful"] == [{"Id": "x"}]
    assert [(each["Id"], each["SenderFault"]) for each in deleted["Failed"]] == [("y", True)]


def test_a_queue_is_made_found_changed_and_deleted(sqs: Any, new_name: Callable[..., str]) -> None:
    name = new_name()
    url = sqs.create_queue(QueueName=name, Attributes={"DelaySeconds": "3"}, tags={"team": "a"})[
        "QueueUrl"
    ]
    assert sqs.get_queue_url(QueueName=name)["QueueUrl"] == url
    assert sqs.list_queues(QueueNamePrefix=name)["QueueUrls"] == [url]
    sqs.set_queue_attributes(QueueUrl=url, Attributes={"VisibilityTimeout": "11"})
    attributes = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
    assert (attributes["DelaySeconds"], attributes["VisibilityTimeout"]) == ("3", "11")
    assert attributes["QueueArn"] == f"arn:aws:sqs:us-east-1:000000000000:{name}"
    sqs.tag_queue(QueueUrl=url, Tags={"env": "test", "empty": ""})
    sqs.untag_queue(QueueUrl=url, TagKeys=["team"])
    assert sqs.list_queue_tags(QueueUrl=url)["Tags"] == {"env": "test", "empty": ""}
    sqs.send_message(QueueUrl=url, MessageBody="x")
    sqs.purge_queue(QueueUrl=url)
    sqs.delete_queue(QueueUrl=url)
    with pytest.raises(ClientError) as caught:
        sqs.get_queue_url(QueueName=name)
    assert _code(caught) == "AWS.SimpleQueueService.NonExistentQueue"


@pytest.fixture
def fifo(sqs: Any, new_name: Callable[..., str]) -> Fifo:
    url = sqs.create_queue(
        QueueName=f"{new_name()}.fifo",
        Attributes={"FifoQueue": "true", "ContentBasedDeduplication": "true"},
    )["QueueUrl"]
    return Fifo(sqs, url)


class Fifo:
    """A FIFO queue whose bodies begin with their group."""

    def __init__(self, sqs: Any, url: str) -> None:
        self._sqs = sqs
        self._url = url

    def send(self, *bodies: str) -> None:
        for body in bodies:
            self._sqs.send_message(QueueUrl=self._url, MessageBody=body, MessageGroupId=body[0])

    def receive(self, count: int = 10) -> dict[str, str]:
        """Handles by body, in the order of the answer."""
        answer = self._sqs.receive_message(
            QueueUrl=self._url, MaxNumberOfMessages=count, VisibilityTimeout=600
        )
        return {each["Body"]: each["ReceiptHandle"] for each in answer.get("Messages", ())}

    def delete(self, handle: str) -> None:
        self._sqs.delete_message(QueueUrl=self._url, ReceiptHandle=handle)

    def show(self, handle: str) -> None:
        self._sqs.change_message_visibility(
            QueueUrl=self._url, ReceiptHandle=handle, VisibilityTimeout=0
        )


def test_one_group_is_given_whole_before_the_next(fifo: Fifo) -> None:
    fifo.send("a1", "b1", "a2", "c1", "b2", "a3")
    assert [list(fifo.receive(4)) for _ in range(3)] == [["a1", "a2", "a3", "b1"], ["c1"], []]


def test_a_group_waits_until_all_that_is_in_flight_is_deleted(fifo: Fifo) -> None:
    fifo.send("a1", "a2", "a3")
    held = fifo.receive(2)
    fifo.send("a4", "b1")
    assert list(fifo.receive()) == ["b1"]
    fifo.delete(held["a1"])
    assert not fifo.receive()
    fifo.delete(held["a2"])
    assert list(fifo.receive()) == ["a3", "a4"]


def test_a_group_that_comes_back_goes_behind_those_that_wait(fifo: Fifo) -> None:
    fifo.send("a1", "b1", "c1")
    first, second = fifo.receive(1), fifo.receive(1)
    assert [*first, *second] == ["a1", "b1"]
    fifo.show(first["a1"])
    fifo.show(second["b1"])
    # As recorded from AWS.
    assert [list(fifo.receive(1)) for _ in range(3)] == [["c1"], ["a1"], ["b1"]]


def test_fifo_keeps_order_and_drops_duplicates(sqs: Any, new_name: Callable[..., str]) -> None:
    url = sqs.create_queue(QueueName=f"{new_name()}.fifo", Attributes={"FifoQueue": "true"})[
        "QueueUrl"
    ]
    first = sqs.send_message(
        QueueUrl=url, MessageBody="1", MessageGroupId="g", MessageDeduplicationId="d1"
    )
    again = sqs.send_message(
        QueueUrl=url, MessageBody="1'", MessageGroupId="g", MessageDeduplicationId="d1"
    )
    assert again["MessageId"] == first["MessageId"]
    assert again["SequenceNumber"] == first["SequenceNumber"]
    sqs.send_message(QueueUrl=url, MessageBody="2", MessageGroupId="g", MessageDeduplicationId="d2")
    got: list[Any] = []
    while len(got) < 2:
        messages = sqs.receive_message(
            QueueUrl=url, MaxNumberOfMessages=10, AttributeNames=["MessageGroupId"]
        )["Messages"]
        for message in messages:
            sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
        got += messages
    assert [message["Body"] for message in got] == ["1", "2"]
    assert got[0]["Attributes"] == {"MessageGroupId": "g"}


def test_permissions_are_added_and_removed(sqs: Any, new_name: Callable[..., str]) -> None:
    url = sqs.create_queue(QueueName=new_name())["QueueUrl"]
    sqs.add_permission(
        QueueUrl=url, Label="lend", AWSAccountIds=["111111111111"], Actions=["SendMessage"]
    )
    policy = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["Policy"])["Attributes"]
    [statement] = json.loads(policy["Policy"])["Statement"]
    assert (statement["Sid"], statement["Action"]) == ("lend", "SQS:SendMessage")
    sqs.remove_permission(QueueUrl=url, Label="lend")
    assert "Attributes" not in sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["Policy"])


def test_dead_letters_are_moved_back(sqs: Any, new_name: Callable[..., str]) -> None:
    dead = sqs.create_queue(QueueName=new_name("dead"))["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=dead, AttributeNames=["QueueArn"])["Attributes"][
        "QueueArn"
    ]
    redrive = json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": 1})
    url = sqs.create_queue(QueueName=new_name(), Attributes={"RedrivePolicy": redrive})["QueueUrl"]
    assert sqs.list_dead_letter_source_queues(QueueUrl=dead)["queueUrls"] == [url]
    sqs.send_message(QueueUrl=url, MessageBody="poison")
    sqs.receive_message(QueueUrl=url, VisibilityTimeout=0)
    assert "Messages" not in sqs.receive_message(QueueUrl=url)
    attributes = sqs.get_queue_attributes(QueueUrl=dead, AttributeNames=["All"])["Attributes"]
    assert attributes["ApproximateNumberOfMessages"] == "1"
    handle = sqs.start_message_move_task(SourceArn=arn)["TaskHandle"]
    assert handle
    # The server carries the task on by itself.
    [message] = sqs.receive_message(QueueUrl=url, WaitTimeSeconds=20)["Messages"]
    assert message["Body"] == "poison"
    [task] = sqs.list_message_move_tasks(SourceArn=arn, MaxResults=10)["Results"]
    assert task["SourceArn"] == arn
    with pytest.raises(ClientError) as caught:
        sqs.cancel_message_move_task(TaskHandle="bm9uc2Vuc2U=")
    assert caught.value.response["ResponseMetadata"]["HTTPStatusCode"] in (400, 404)


def test_lists_come_in_pages(sqs: Any, new_name: Callable[..., str]) -> None:
    prefix = new_name("page")
    for number in range(5):
        sqs.create_queue(QueueName=f"{prefix}-{number}")
    pages = sqs.get_paginator("list_queues").paginate(
        QueueNamePrefix=prefix, PaginationConfig={"PageSize": 2}
    )
    found = [page.get("QueueUrls", []) for page in pages]
    assert [len(urls) for urls in found] == [2, 2, 1]


def test_errors_have_their_code_shape_and_status(sqs: Any, new_name: Callable[..., str]) -> None:
    name = new_name()
    sqs.create_queue(QueueName=name, Attributes={"DelaySeconds": "1"})
    with pytest.raises(ClientError) as caught:
        sqs.create_queue(QueueName=name, Attributes={"DelaySeconds": "2"})
    assert _code(caught) == "QueueAlreadyExists"
    assert caught.value.response["ResponseMetadata"]["HTTPStatusCode"] == 400
    assert caught.value.response["ResponseMetadata"]["RequestId"]


def test_old_code_catches_modelled_exceptions(door: Any) -> None:
    sqs = door.boto3()
    with pytest.raises(sqs.exceptions.QueueDoesNotExist) as caught:
        sqs.receive_message(QueueUrl=f"{door.url}/000000000000/nowhere")
    error = caught.value.response["Error"]
    assert error["Code"] == "AWS.SimpleQueueService.NonExistentQueue"
    assert error["QueryErrorCode"] == "QueueDoesNotExist"
    assert error["Message"] == "The specified queue does not exist."


def test_the_query_protocol_words_it_as_it_always_did(door: Any) -> None:
    sqs = door.boto3(protocol="query")
    with pytest.raises(ClientError) as caught:
        sqs.receive_message(QueueUrl=f"{door.url}/000000000000/nowhere")
    error = caught.value.response["Error"]
    assert error["Message"] == "The specified queue does not exist for this wsdl version."
    assert error["Code"] == "AWS.SimpleQueueService.NonExistentQueue"


def test_a_repeated_receive_gets_the_same_messages(sqs: Any, new_name: Callable[..., str]) -> None:
    url = sqs.create_queue(
        QueueName=f"{new_name()}.fifo",
        Attributes={"FifoQueue": "true", "ContentBasedDeduplication": "true"},
    )["QueueUrl"]
    sqs.send_message(QueueUrl=url, MessageBody="once", MessageGroupId="g")
    first, again = (
        sqs.receive_message(QueueUrl=url, ReceiveRequestAttemptId="attempt-1")["Messages"]
        for _ in range(2)
    )
    assert first[0]["ReceiptHandle"] == again[0]["ReceiptHandle"]
    assert "Messages" not in sqs.receive_message(QueueUrl=url, ReceiveRequestAttemptId="attempt-2")


def test_a_batch_carries_trace_headers_and_delays(sqs: Any, new_name: Callable[..., str]) -> None:
    url = sqs.create_queue(QueueName=new_name())["QueueUrl"]
    trace = {"AWSTraceHeader": {"DataType": "String", "StringValue": "Root=1-5e-2"}}
    sent = sqs.send_message_batch(
        QueueUrl=url,
        Entries=[
            {"Id": "now", "MessageBody": "x", "MessageSystemAttributes": trace},
            {"Id": "later", "MessageBody": "y", "DelaySeconds": 900},
        ],
    )
    assert len(sent["Successful"]) == 2
    counts = sqs.get_queue_attributes(
        QueueUrl=url, AttributeNames=["ApproximateNumberOfMessagesDelayed"]
    )["Attributes"]
    [message] = sqs.receive_message(
        QueueUrl=url, MaxNumberOfMessages=10, MessageSystemAttributeNames=["AWSTraceHeader"]
    )["Messages"]
    assert counts == {"ApproximateNumberOfMessagesDelayed": "1"}
    assert message["Attributes"] == {"AWSTraceHeader": "Root=1-5e-2"}
