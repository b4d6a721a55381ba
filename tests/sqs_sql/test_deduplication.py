"""Duplicates in FIFO queues: five minutes, by id or content, in the queue or in the group."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import pytest

from tests.concurrency.sessions import in_background
from tests.fixtures import clock
from tests.sqs_sql.caller import Sqs
from tests.sqs_sql.digests import attributes_md5, body_md5, text

if TYPE_CHECKING:
    from tests.fixtures.databases import Connect


@pytest.fixture
def q(sqs: Sqs) -> Sqs:
    sqs.create("q.fifo")
    return sqs


def send(sqs: Sqs, body: str, *, group: str = "g", **more: Any) -> dict[str, Any]:
    return sqs.send("q.fifo", body, MessageGroupId=group, **more)


def drain(sqs: Sqs) -> list[str]:
    found = []
    while messages := sqs.receive("q.fifo"):
        for message in messages:
            found.append(message["Body"])
            sqs.delete(message, "q.fifo")
    return found


def test_a_duplicate_is_not_delivered(q: Sqs) -> None:
    send(q, "one", MessageDeduplicationId="d")
    send(q, "two", MessageDeduplicationId="d")
    send(q, "three", MessageDeduplicationId="e")

    assert drain(q) == ["one", "three"]


def test_a_duplicate_answers_with_the_first_id_and_its_own_digests(q: Sqs) -> None:
    first = send(q, "one", MessageDeduplicationId="d")
    attributes = {"a": text("b")}

    second = send(q, "two", MessageDeduplicationId="d", MessageAttributes=attributes)

    assert second["MessageId"] == first["MessageId"]
    assert second["SequenceNumber"] == first["SequenceNumber"]
    assert second["MD5OfMessageBody"] == body_md5("two")
    assert second["MD5OfMessageAttributes"] == attributes_md5(attributes)


def test_a_duplicate_is_one_after_the_first_was_deleted(q: Sqs) -> None:
    send(q, "one", MessageDeduplicationId="d")
    assert drain(q) == ["one"]

    send(q, "one", MessageDeduplicationId="d")

    assert drain(q) == []


def test_after_five_minutes_it_is_a_new_message(q: Sqs) -> None:
    send(q, "one", MessageDeduplicationId="d")
    clock.advance(q.db, 295)
    send(q, "two", MessageDeduplicationId="d")
    clock.advance(q.db, 6)

    send(q, "three", MessageDeduplicationId="d")

    assert drain(q) == ["one", "three"]


def test_content_makes_duplicates_where_the_queue_says_so(sqs: Sqs) -> None:
    sqs.create("q.fifo", ContentBasedDeduplication="true")
    send(sqs, "same")
    send(sqs, "same", MessageAttributes={"a": text("b")})
    send(sqs, "same", MessageDeduplicationId="own")
    digest = hashlib.sha256(b"same").hexdigest()

    messages = sqs.receive("q.fifo", AttributeNames=["MessageDeduplicationId"])
    sqs.delete(messages[0], "q.fifo")
    messages += sqs.receive("q.fifo", AttributeNames=["MessageDeduplicationId"])

    ids = [message["Attributes"]["MessageDeduplicationId"] for message in messages]
    assert ids[:2] == [digest, "own"]
    sqs.set("q.fifo", ContentBasedDeduplication="false")
    refusal = sqs.refusal("SendMessage", QueueUrl="q.fifo", MessageBody="x", MessageGroupId="g")
    assert refusal.message.startswith("The queue should either have ContentBasedDeduplication")


def test_duplicates_are_of_the_whole_queue(q: Sqs) -> None:
    send(q, "one", group="a", MessageDeduplicationId="d")
    send(q, "two", group="b", MessageDeduplicationId="d")

    assert drain(q) == ["one"]


def test_duplicates_can_be_of_the_group(sqs: Sqs) -> None:
    sqs.create("q.fifo", DeduplicationScope="messageGroup")
    for group in ("a", "b", "a"):
        send(sqs, f"of {group}", group=group, MessageDeduplicationId="d")

    assert sorted(drain(sqs)) == ["of a", "of b"]


def test_the_scope_is_frozen_when_the_queue_is_made(q: Sqs) -> None:
    q.set("q.fifo", DeduplicationScope="messageGroup")
    send(q, "one", group="a", MessageDeduplicationId="d")
    send(q, "two", group="b", MessageDeduplicationId="d")

    assert drain(q) == ["one"]
    assert q.attributes("q.fifo")["DeduplicationScope"] == "messageGroup"


def test_duplicates_within_a_batch_are_found(q: Sqs) -> None:
    entries = [
        {"Id": str(n), "MessageBody": f"m{n}", "MessageGroupId": "g", "MessageDeduplicationId": d}
        for n, d in enumerate(("d", "d", "e"))
    ]

    answer = q("SendMessageBatch", QueueUrl="q.fifo", Entries=entries)

    ids = [each["MessageId"] for each in answer["Successful"]]
    assert ids[0] == ids[1] != ids[2]
    assert drain(q) == ["m0", "m2"]


def test_ids_are_texts_without_spaces(q: Sqs) -> None:
    for bad in ("", "a b", "ä", "x" * 129):
        refusal = q.refusal(
            "SendMessage",
            QueueUrl="q.fifo",
            MessageBody="x",
            MessageGroupId="g",
            MessageDeduplicationId=bad,
        )
        assert refusal.code == "InvalidParameterValue", bad


def test_of_two_senders_at_once_one_is_the_duplicate(q: Sqs, connect: Connect) -> None:
    first, second = Sqs(connect(autocommit=False)), Sqs(connect())
    sent = send(first, "first", MessageDeduplicationId="d")
    waiting = in_background(
        q.db, second.db, lambda: send(second, "second", MessageDeduplicationId="d")
    )

    first.db.commit()

    assert waiting.result()["MessageId"] == sent["MessageId"]
    assert drain(q) == ["first"]


def test_a_sender_that_gives_up_leaves_the_id_to_the_next(q: Sqs, connect: Connect) -> None:
    first, second = Sqs(connect(autocommit=False)), Sqs(connect())
    send(first, "first", MessageDeduplicationId="d")
    waiting = in_background(
        q.db, second.db, lambda: send(second, "second", MessageDeduplicationId="d")
    )

    first.db.rollback()
    waiting.result()

    assert drain(q) == ["second"]


def test_sequence_numbers_grow_in_the_order_of_commits(q: Sqs, connect: Connect) -> None:
    first, second = Sqs(connect(autocommit=False)), Sqs(connect())
    one = send(first, "one", MessageDeduplicationId="1")
    waiting = in_background(
        q.db, second.db, lambda: send(second, "two", MessageDeduplicationId="2")
    )
    first.db.commit()

    two = waiting.result()

    assert len(one["SequenceNumber"]) == len(two["SequenceNumber"]) == 20
    assert one["SequenceNumber"] < two["SequenceNumber"]
    assert drain(q) == ["one", "two"]
