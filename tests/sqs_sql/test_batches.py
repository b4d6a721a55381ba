"""Batches: their rules, and what becomes of good and bad entries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.sqs_sql.digests import attributes_md5, text

if TYPE_CHECKING:
    from tests.sqs_sql.caller import Sqs

ACTIONS = ["SendMessageBatch", "DeleteMessageBatch", "ChangeMessageVisibilityBatch"]


def entry(number: int | str, **more: Any) -> dict[str, Any]:
    """One that any batch takes."""
    base = {"Id": str(number), "MessageBody": f"m{number}", "ReceiptHandle": "x"}
    return {**base, "VisibilityTimeout": 5, **more}


@pytest.fixture
def q(sqs: Sqs) -> Sqs:
    sqs.create("q")
    return sqs


@pytest.mark.parametrize("action", ACTIONS)
def test_a_batch_has_from_one_to_ten_entries(q: Sqs, action: str) -> None:
    for entries in ([], None):
        empty = q.refusal(action, QueueUrl="q", Entries=entries)
        assert empty.code == "AWS.SimpleQueueService.EmptyBatchRequest"
        assert empty.message == f"There should be at least one {action}RequestEntry in the request."
    full = q.refusal(action, QueueUrl="q", Entries=[entry(number) for number in range(11)])
    assert full.code == "AWS.SimpleQueueService.TooManyEntriesInBatchRequest"
    assert full.message == "Maximum number of entries per request are 10. You have sent 11."


@pytest.mark.parametrize("action", ACTIONS)
def test_the_ids_of_a_batch_are_valid_and_distinct(q: Sqs, action: str) -> None:
    for bad in ("", "a b", "invalid:id", "x" * 81, "ä"):
        refusal = q.refusal(action, QueueUrl="q", Entries=[entry(bad)])
        assert refusal.code == "AWS.SimpleQueueService.InvalidBatchEntryId"
    twice = q.refusal(action, QueueUrl="q", Entries=[entry("a"), entry("b"), entry("a")])
    assert twice.code == "AWS.SimpleQueueService.BatchEntryIdsNotDistinct"
    assert twice.message == "Id a repeated."
    assert q.receive() == []


def test_good_entries_are_sent_and_bad_ones_say_why(q: Sqs) -> None:
    attributes = {"a": text("b")}
    answer = q(
        "SendMessageBatch",
        QueueUrl="q",
        Entries=[
            {"Id": "one", "MessageBody": "1"},
            {"Id": "two", "MessageBody": "\x01"},
            {"Id": "three", "MessageBody": "3", "MessageAttributes": attributes},
            {"Id": "four", "MessageBody": "4", "DelaySeconds": 901},
            {"Id": "five", "MessageBody": ""},
        ],
    )

    assert [each["Id"] for each in answer["Successful"]] == ["one", "three"]
    assert answer["Successful"][1]["MD5OfMessageAttributes"] == attributes_md5(attributes)
    assert [(each["Id"], each["Code"], each["SenderFault"]) for each in answer["Failed"]] == [
        ("two", "InvalidMessageContents", True),
        ("four", "InvalidParameterValue", True),
        ("five", "MissingParameter", True),
    ]
    assert all(each["Message"] for each in answer["Failed"])
    assert q.bodies() == ["1", "3"]


def test_what_is_empty_is_absent(q: Sqs) -> None:
    good = q("SendMessageBatch", QueueUrl="q", Entries=[{"Id": "a", "MessageBody": "1"}])
    bad = q("SendMessageBatch", QueueUrl="q", Entries=[{"Id": "a", "MessageBody": ""}])

    assert good.keys() == {"Successful"}
    assert bad.keys() == {"Failed"}


def test_a_batch_is_kept_in_its_order(q: Sqs) -> None:
    for start in (0, 10):
        q(
            "SendMessageBatch",
            QueueUrl="q",
            Entries=[entry(number) for number in range(start, start + 10)],
        )

    assert q.bodies() + q.bodies() == [f"m{number}" for number in range(20)]


def test_a_batch_has_a_mebibyte_at_most(q: Sqs) -> None:
    half = "x" * 524288
    fits = [{"Id": "a", "MessageBody": half}, {"Id": "b", "MessageBody": half}]

    assert len(q("SendMessageBatch", QueueUrl="q", Entries=fits)["Successful"]) == 2
    refusal = q.refusal(
        "SendMessageBatch", QueueUrl="q", Entries=[*fits, {"Id": "c", "MessageBody": "y"}]
    )

    assert refusal.code == "AWS.SimpleQueueService.BatchRequestTooLong"
    assert refusal.message == (
        "Batch requests cannot be longer than 1048576 bytes. You have sent 1048577 bytes."
    )


def test_a_batch_is_deleted_entry_by_entry(q: Sqs) -> None:
    for number in range(3):
        q.send(body=str(number))
    held = q.receive()

    answer = q(
        "DeleteMessageBatch",
        QueueUrl="q",
        Entries=[
            {"Id": "a", "ReceiptHandle": held[2]["ReceiptHandle"]},
            {"Id": "b", "ReceiptHandle": "nonsense"},
            {"Id": "c", "ReceiptHandle": held[0]["ReceiptHandle"]},
        ],
    )

    assert answer["Successful"] == [{"Id": "a"}, {"Id": "c"}]
    (failed,) = answer["Failed"]
    assert (failed["Id"], failed["Code"]) == ("b", "ReceiptHandleIsInvalid")
    assert q.counts() == (0, 1, 0)


def test_visibility_is_changed_entry_by_entry(q: Sqs) -> None:
    for number in range(3):
        q.send(body=str(number))
    held = q.receive()

    answer = q(
        "ChangeMessageVisibilityBatch",
        QueueUrl="q",
        Entries=[
            {"Id": "a", "ReceiptHandle": held[0]["ReceiptHandle"], "VisibilityTimeout": 0},
            {"Id": "b", "ReceiptHandle": held[1]["ReceiptHandle"], "VisibilityTimeout": 43201},
            {"Id": "c", "ReceiptHandle": held[2]["ReceiptHandle"]},
            {"Id": "d", "ReceiptHandle": "", "VisibilityTimeout": 1},
        ],
    )

    assert answer["Successful"] == [{"Id": "a"}]
    assert [(each["Id"], each["Code"]) for each in answer["Failed"]] == [
        ("b", "InvalidParameterValue"),
        ("c", "MissingParameter"),
        ("d", "ReceiptHandleIsInvalid"),
    ]
    assert q.bodies() == ["0"]


def test_a_batch_without_a_group_fails_as_a_whole_on_a_fifo_queue(sqs: Sqs) -> None:
    sqs.create("q.fifo")
    good = {"Id": "a", "MessageBody": "1", "MessageGroupId": "g", "MessageDeduplicationId": "1"}

    for missing, message in (
        ("MessageGroupId", "The request must contain the parameter MessageGroupId."),
        (
            "MessageDeduplicationId",
            (
                "The queue should either have ContentBasedDeduplication enabled "
                "or MessageDeduplicationId provided explicitly"
            ),
        ),
    ):
        bad = {key: value for key, value in good.items() if key != missing} | {"Id": "b"}
        refusal = sqs.refusal("SendMessageBatch", QueueUrl="q.fifo", Entries=[good, bad])
        assert (refusal.code, refusal.message) == ("InvalidParameterValue", message)
    assert sqs.receive("q.fifo") == []
