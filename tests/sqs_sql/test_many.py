"""invoke_many: many requests in one statement, each with its own answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.fixtures import clock
from tests.sqs_sql.digests import attributes_md5, text

if TYPE_CHECKING:
    from tests.sqs_sql.caller import Sqs


@pytest.fixture
def q(sqs: Sqs) -> Sqs:
    sqs.create("q")
    return sqs


def message(body: str, queue: str = "q", **more: Any) -> dict[str, Any]:
    return {"QueueUrl": queue, "MessageBody": body, **more}


def receive(count: int = 1, queue: str = "q", **more: Any) -> dict[str, Any]:
    return {"QueueUrl": queue, "MaxNumberOfMessages": count, **more}


def bodies(answer: dict[str, Any]) -> list[str]:
    return [each["Body"] for each in answer.get("Messages", [])]


def test_many_messages_are_sent_in_their_order(q: Sqs) -> None:
    answers = q.many("SendMessage", *(message(str(number)) for number in range(25)))

    assert len({answer["MessageId"] for answer in answers}) == 25
    assert q.bodies() + q.bodies() + q.bodies() == [str(number) for number in range(25)]


def test_a_faulty_request_does_not_hinder_the_others(q: Sqs) -> None:
    q.create("other")
    attributes = {"a": text("b")}

    answers = q.many(
        "SendMessage",
        message("one"),
        message("", "q"),
        message("two", "other"),
        message("x", "none"),
        {"MessageBody": "x"},
        message("three", MessageAttributes=attributes),
    )

    codes = [answer.get("__error", {}).get("query_code") for answer in answers]
    assert codes == [
        None,
        "MissingParameter",
        None,
        "AWS.SimpleQueueService.NonExistentQueue",
        "MissingParameter",
        None,
    ]
    error = answers[3]["__error"]
    assert (error["shape"], error["status"]) == ("QueueDoesNotExist", 400)
    assert answers[5]["MD5OfMessageAttributes"] == attributes_md5(attributes)
    assert (q.bodies("q"), q.bodies("other")) == (["one", "three"], ["two"])


def test_many_receives_share_what_is_there(q: Sqs) -> None:
    for number in range(6):
        q.send(body=str(number))

    answers = q.many("ReceiveMessage", receive(1), receive(3), receive(), receive(10), receive(10))

    assert [bodies(answer) for answer in answers] == [["0"], ["1", "2", "3"], ["4"], ["5"], []]
    assert answers[-1] == {}
    assert q.counts() == (0, 6, 0)


def test_each_receive_can_be_finished_by_itself(q: Sqs) -> None:
    for number in range(4):
        q.send(body=str(number))
    first, second, third = q.many("ReceiveMessage", receive(1), receive(2), receive(1))

    for found in first["Messages"] + second["Messages"][:1]:
        q.delete(found)
    q.hide(third["Messages"][0], 0)

    assert q.counts() == (1, 1, 0)
    clock.advance(q.db, 31)
    assert sorted(q.bodies()) == ["2", "3"]


def test_receives_that_want_different_things_get_them(q: Sqs) -> None:
    for number in range(4):
        q.send(body=str(number), MessageAttributes={"a": text("b")})

    plain, short, full, again, bad = q.many(
        "ReceiveMessage",
        receive(),
        receive(VisibilityTimeout=5),
        receive(MessageAttributeNames=["All"], AttributeNames=["All"]),
        receive(),
        receive(11),
    )

    assert all(len(answer["Messages"]) == 1 for answer in (plain, short, full, again))
    assert "MessageAttributes" in full["Messages"][0]
    assert "Attributes" not in plain["Messages"][0]
    assert bad["__error"]["query_code"] == "InvalidParameterValue"
    clock.advance(q.db, 6)
    assert q.bodies() == bodies(short)


def test_shares_keep_the_history_of_their_messages(q: Sqs) -> None:
    for number in range(4):
        q.send(body=str(number))
    before = q.receive(AttributeNames=["All"], VisibilityTimeout=5)
    clock.advance(q.db, 6)

    wanted = {"AttributeNames": ["All"], "VisibilityTimeout": 5}
    q.many("ReceiveMessage", receive(3, **wanted), receive(1, **wanted))
    clock.advance(q.db, 6)
    after = q.receive(AttributeNames=["All"])

    assert {found["Attributes"]["ApproximateReceiveCount"] for found in after} == {"3"}
    stamp = "ApproximateFirstReceiveTimestamp"
    assert sorted(found["Attributes"][stamp] for found in after) == sorted(
        found["Attributes"][stamp] for found in before
    )


def test_many_deletes_end_singles_and_parts_of_batches(q: Sqs) -> None:
    for number in range(8):
        q.send(body=str(number))
    held = q.receive(count=3) + [found for _ in range(3) for found in q.receive(count=1)]
    batch = q.receive()
    assert len(batch) == 2
    handles = [found["ReceiptHandle"] for found in (*held, *batch[:1])]

    answers = q.many(
        "DeleteMessage",
        *({"QueueUrl": "q", "ReceiptHandle": handle} for handle in (*handles, "x", handles[0])),
        {"QueueUrl": "q"},
    )

    codes = [answer.get("__error", {}).get("query_code") for answer in answers]
    assert codes == [None] * len(handles) + ["ReceiptHandleIsInvalid", None, "MissingParameter"]
    assert q.counts() == (0, len(batch) - 1, 0)


def test_many_deletes_of_what_was_received_by_many(q: Sqs) -> None:
    for number in range(5):
        q.send(body=str(number))
    answers = q.many("ReceiveMessage", *(receive() for _ in range(5)))
    handles = [answer["Messages"][0]["ReceiptHandle"] for answer in answers]

    q.many("DeleteMessage", *({"QueueUrl": "q", "ReceiptHandle": handle} for handle in handles))

    assert q.counts() == (0, 0, 0)
    clock.advance(q.db, 31)
    assert q.receive() == []


def test_many_visibilities_are_changed(q: Sqs) -> None:
    for number in range(3):
        q.send(body=str(number))
    held = q.receive()

    answers = q.many(
        "ChangeMessageVisibility",
        *(
            {"QueueUrl": "q", "ReceiptHandle": found["ReceiptHandle"], "VisibilityTimeout": seconds}
            for found, seconds in zip(held, (0, 99999, 60), strict=True)
        ),
    )

    assert [answer.get("__error", {}).get("shape") for answer in answers] == [
        None,
        "InvalidParameterValueException",
        None,
    ]
    assert q.bodies() == ["0"]


def test_a_group_is_not_shared_out(sqs: Sqs) -> None:
    sqs.create("q.fifo")
    sqs.post("a", "a1", "a2", "a3")
    sqs.post("b", "b1")

    answers = sqs.many("ReceiveMessage", *(receive(1, "q.fifo") for _ in range(3)))

    assert [bodies(answer) for answer in answers] == [["a1"], ["b1"], []]


def test_other_actions_are_performed_one_by_one(q: Sqs) -> None:
    answers = q.many("GetQueueUrl", {"QueueName": "q"}, {"QueueName": "none"}, {"QueueName": "q"})

    assert answers[0] == answers[2] == q("GetQueueUrl", QueueName="q")
    assert answers[1]["__error"]["shape"] == "QueueDoesNotExist"


def test_nothing_is_answered_when_nothing_is_asked(q: Sqs) -> None:
    assert q.many("SendMessage") == q.many("ListQueues") == []


def test_many_batches_are_performed_at_once(q: Sqs) -> None:
    def batch(*bodies: str) -> dict[str, Any]:
        entries = [{"Id": f"i{n}", "MessageBody": body} for n, body in enumerate(bodies)]
        return {"QueueUrl": "q", "Entries": entries}

    sent = q.many("SendMessageBatch", batch("a", "b"), batch(), batch("", "c"), batch("d"))

    assert [[each["Id"] for each in one.get("Successful", [])] for one in sent] == [
        ["i0", "i1"],
        [],
        ["i1"],
        ["i0"],
    ]
    assert sent[1]["__error"]["shape"] == "EmptyBatchRequest"
    assert [failed["Code"] for failed in sent[2]["Failed"]] == ["MissingParameter"]
    held = q.receive()
    assert [found["Body"] for found in held] == ["a", "b", "c", "d"]

    def handles(*given: str) -> dict[str, Any]:
        entries = [{"Id": f"i{n}", "ReceiptHandle": handle} for n, handle in enumerate(given)]
        return {"QueueUrl": "q", "Entries": entries}

    first, second, third, fourth = (found["ReceiptHandle"] for found in held)
    deleted = q.many("DeleteMessageBatch", handles(first, "x"), handles(fourth), handles(third))
    assert [failed["Code"] for failed in deleted[0]["Failed"]] == ["ReceiptHandleIsInvalid"]
    assert [one["Successful"] for one in deleted] == [[{"Id": "i0"}]] * 3
    change = {"Id": "i0", "ReceiptHandle": second, "VisibilityTimeout": 0}
    changed = q.many("ChangeMessageVisibilityBatch", {"QueueUrl": "q", "Entries": [change]})
    assert changed == [{"Successful": [{"Id": "i0"}]}]
    assert q.bodies() == ["b"]
