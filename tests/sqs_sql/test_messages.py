"""Sending and receiving: bodies, sizes, characters, delays, retention, system attributes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

from tests.fixtures import clock
from tests.sqs_sql.caller import Sqs
from tests.sqs_sql.digests import body_md5, text

if TYPE_CHECKING:
    import psycopg

    Session = psycopg.Connection[Any]

BODIES = [
    "Hello, world!",
    ' {"b": 1,\t"a": 2}\r\n ',
    "\t\n\r",
    "ÄÖÜ 漢字 \U0001f600 \ud7ff\ue000\ufffd\U00010000\U0010ffff",
    "\x7f\x85\\u0041 %s {} \"'",
    "null",
    "x" * 100_000,
]


@pytest.fixture
def q(sqs: Sqs) -> Sqs:
    sqs.create("q")
    return sqs


def test_bodies_come_back_as_they_were_sent(q: Sqs) -> None:
    for body in BODIES:
        answer = q.send(body=body)
        assert answer["MD5OfMessageBody"] == body_md5(body)
        (message,) = q.receive()
        assert message["Body"] == body
        assert message["MD5OfBody"] == body_md5(body)
        assert message["MessageId"] == answer["MessageId"]


def test_a_plain_answer_holds_no_more_than_it_must(q: Sqs) -> None:
    assert q.send().keys() == {"MessageId", "MD5OfMessageBody"}
    assert q.receive()[0].keys() == {"MessageId", "ReceiptHandle", "MD5OfBody", "Body"}
    assert q("ReceiveMessage", QueueUrl="q") == {}


def test_message_ids_are_uuids_of_their_own(q: Sqs) -> None:
    ids = {q.send()["MessageId"] for _ in range(20)}

    assert len(ids) == 20
    assert all(re.fullmatch(r"[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}", each) for each in ids)


def test_a_message_needs_a_body(q: Sqs) -> None:
    for request in ({}, {"MessageBody": ""}, {"MessageBody": None}):
        refusal = q.refusal("SendMessage", QueueUrl="q", **request)
        assert refusal.code == "MissingParameter"
        assert refusal.message == "The request must contain the parameter MessageBody."


def test_characters_that_xml_has_not_are_refused(q: Sqs) -> None:
    for character in "\x01\x08\x0b\x0c\x0e\x1f\ufffe\uffff":
        for more in ({}, {"DelaySeconds": 0}):
            body = f"a{character}b"
            refusal = q.refusal("SendMessage", QueueUrl="q", MessageBody=body, **more)
            assert refusal.code == "InvalidMessageContents"
            assert f"'#x{ord(character):X}'" in refusal.message
    assert q.receive() == []


def test_a_message_is_as_large_as_the_queue_allows(sqs: Sqs) -> None:
    sqs.create("q", MaximumMessageSize="1024")

    sqs.send(body="ä" * 512)
    refusal = sqs.refusal("SendMessage", QueueUrl="q", MessageBody="x" * 1025)

    assert refusal.code == "InvalidParameterValue"
    assert refusal.message == (
        "One or more parameters are invalid. Reason: Message must be shorter than 1024 bytes."
    )


def test_names_types_and_values_of_attributes_count_as_size(sqs: Sqs) -> None:
    sqs.create("q", MaximumMessageSize="1024")
    attribute = {"name": text("value")}
    size = len("name" + "String" + "value")

    sqs.send(body="x" * (1024 - size), MessageAttributes=attribute)
    too_long = "x" * (1025 - size)
    refusal = sqs.refusal(
        "SendMessage", QueueUrl="q", MessageBody=too_long, MessageAttributes=attribute
    )

    assert refusal.message.endswith("Message must be shorter than 1024 bytes.")
    trace = {"AWSTraceHeader": text("Root=1-5759e988-bd862e3fe1be46a994272793")}
    sqs.send(body="x" * 1024, MessageSystemAttributes=trace)


def test_a_message_can_have_a_mebibyte(q: Sqs) -> None:
    body = "x" * 1048576

    q.send(body=body)

    assert q.bodies() == [body]
    refusal = q.refusal("SendMessage", QueueUrl="q", MessageBody=body + "x")
    assert refusal.message.endswith("Message must be shorter than 1048576 bytes.")


def test_a_delayed_message_comes_when_it_is_due(q: Sqs) -> None:
    q.send(body="late", DelaySeconds=10)
    q.send(body="soon", DelaySeconds=0)

    assert q.bodies() == ["soon"]
    clock.advance(q.db, 11)
    assert q.bodies() == ["late"]


def test_a_queue_delays_what_does_not_say_otherwise(sqs: Sqs) -> None:
    sqs.create("q", DelaySeconds="10")
    sqs.send(body="late")
    sqs.send(body="now", DelaySeconds=0)

    assert sqs.bodies() == ["now"]
    clock.advance(sqs.db, 11)
    assert sqs.bodies() == ["late"]


def test_a_delay_is_fifteen_minutes_at_most(q: Sqs) -> None:
    for delay in (-1, 901, "x"):
        refusal = q.refusal("SendMessage", QueueUrl="q", MessageBody="x", DelaySeconds=delay)
        assert refusal.code == "InvalidParameterValue"
        assert refusal.message == (
            f"Value {delay} for parameter DelaySeconds is invalid. "
            "Reason: DelaySeconds must be >= 0 and <= 900."
        )


def test_messages_end_with_their_retention(sqs: Sqs) -> None:
    sqs.create("q", MessageRetentionPeriod="60")
    sqs.send(body="old")
    clock.advance(sqs.db, 61)
    sqs.send(body="new")

    assert sqs.bodies() == ["new"]


def test_a_shorter_retention_ends_messages_that_are_there(q: Sqs) -> None:
    q.send(body="old")
    clock.advance(q.db, 61)
    q.send(body="new")

    q.set(MessageRetentionPeriod="60")

    assert q.bodies() == ["new"]


def test_a_message_is_hidden_while_it_is_in_flight(sqs: Sqs) -> None:
    sqs.create("q", VisibilityTimeout="5")
    sqs.send()

    assert len(sqs.receive()) == 1
    clock.advance(sqs.db, 4)
    assert sqs.receive() == []
    clock.advance(sqs.db, 2)
    assert len(sqs.receive(VisibilityTimeout=60)) == 1
    clock.advance(sqs.db, 59)
    assert sqs.receive() == []


def test_visibility_zero_leaves_the_message_visible(q: Sqs) -> None:
    q.send()

    first = q.receive(VisibilityTimeout=0)[0]
    second = q.receive(VisibilityTimeout=0)[0]

    assert first["MessageId"] == second["MessageId"]
    assert first["ReceiptHandle"] != second["ReceiptHandle"]
    q.delete(first)
    assert q.receive() == []


def test_receiving_has_its_ranges(q: Sqs) -> None:
    for name, values, reason in (
        ("MaxNumberOfMessages", (0, 11, -1, "x"), "Must be between 1 and 10, if provided."),
        ("WaitTimeSeconds", (-1, 21), "Must be >= 0 and <= 20, if provided."),
        ("VisibilityTimeout", (-1, 43201), "Must be >= 0 and <= 43200, if provided."),
    ):
        for value in values:
            refusal = q.refusal("ReceiveMessage", QueueUrl="q", **{name: value})
            assert refusal.code == "InvalidParameterValue"
            assert (
                refusal.message
                == f"Value {value} for parameter {name} is invalid. Reason: {reason}"
            )


def test_up_to_ten_messages_are_received_at_once(q: Sqs) -> None:
    for number in range(12):
        q.send(body=str(number))

    assert q.bodies(count=1) == ["0"]
    assert q.bodies(count=10) == [str(number) for number in range(1, 11)]
    assert [message["Body"] for message in q("ReceiveMessage", QueueUrl="q")["Messages"]] == ["11"]


def test_system_attributes_are_given_when_asked_for(db: Session) -> None:
    sqs = Sqs(db, sender_id="AIDAEXAMPLE")
    sqs.create("q")
    sqs.send()
    first = sqs.receive(AttributeNames=["All"], VisibilityTimeout=5)[0]["Attributes"]
    clock.advance(db, 6)
    second = sqs.receive(MessageSystemAttributeNames=["All"], VisibilityTimeout=5)[0]["Attributes"]
    clock.advance(db, 6)
    some = sqs.receive(AttributeNames=["SenderId"], MessageSystemAttributeNames=["SentTimestamp"])

    assert first.keys() == {
        "SenderId",
        "SentTimestamp",
        "ApproximateReceiveCount",
        "ApproximateFirstReceiveTimestamp",
    }
    assert first["SenderId"] == "AIDAEXAMPLE"
    assert (first["ApproximateReceiveCount"], second["ApproximateReceiveCount"]) == ("1", "2")
    assert re.fullmatch(r"\d{13}", first["SentTimestamp"])
    sent, received = int(first["SentTimestamp"]), int(first["ApproximateFirstReceiveTimestamp"])
    assert 0 <= received - sent < 5000
    assert second["ApproximateFirstReceiveTimestamp"] == first["ApproximateFirstReceiveTimestamp"]
    assert some[0]["Attributes"].keys() == {"SenderId", "SentTimestamp"}


def test_the_first_receive_is_known_after_many(q: Sqs) -> None:
    q.send()
    stamps = set()
    for _ in range(25):
        (message,) = q.receive(AttributeNames=["All"], VisibilityTimeout=1)
        stamps.add(message["Attributes"]["ApproximateFirstReceiveTimestamp"])
        clock.advance(q.db, 2)

    assert len(stamps) == 1
    assert message["Attributes"]["ApproximateReceiveCount"] == "25"


def test_the_sender_is_the_account_when_no_sender_is_named(q: Sqs) -> None:
    q.send()

    assert q.receive(AttributeNames=["SenderId"])[0]["Attributes"] == {"SenderId": "000000000000"}


def test_a_trace_header_travels_with_the_message(db: Session) -> None:
    sqs = Sqs(db, trace_header="Root=from-http")
    sqs.create("q")

    sqs.send(body="http")
    sent = sqs.send(body="own", MessageSystemAttributes={"AWSTraceHeader": text("Root=own")})

    traces = [
        (message["Body"], message["Attributes"]["AWSTraceHeader"])
        for message in sqs.receive(AttributeNames=["AWSTraceHeader"])
    ]
    assert traces == [("http", "Root=from-http"), ("own", "Root=own")]
    assert re.fullmatch("[0-9a-f]{32}", sent["MD5OfMessageSystemAttributes"])
    assert "MD5OfMessageAttributes" not in sent


def test_other_system_attributes_cannot_be_sent(q: Sqs) -> None:
    for attributes in (
        {"SenderId": text("me")},
        {"AWSTraceHeader": text("1", "Number")},
        {"AWSTraceHeader": text("")},
        [],
    ):
        refusal = q.refusal(
            "SendMessage", QueueUrl="q", MessageBody="x", MessageSystemAttributes=attributes
        )
        assert refusal.code == "InvalidParameterValue"


def test_a_queue_has_so_many_messages_in_flight_at_most(q: Sqs) -> None:
    q.db.execute("select pgqs.configure('max_in_flight', '3')")
    for _ in range(5):
        q.send()
    held = q.receive(count=3)

    refusal = q.refusal("ReceiveMessage", QueueUrl="q")

    assert (refusal.code, refusal.status) == ("OverLimit", 403)
    q.delete(held[0])
    assert len(q.receive(count=1)) == 1


def test_a_full_fifo_queue_has_an_empty_answer(sqs: Sqs) -> None:
    sqs.db.execute("select pgqs.configure('max_in_flight', '1')")
    sqs.create("q.fifo")
    sqs.post("a", "a1")
    sqs.post("b", "b1")

    assert sqs.bodies("q.fifo", 1) == ["a1"]
    assert sqs.bodies("q.fifo", 1) == []


def test_the_body_is_a_text(q: Sqs) -> None:
    refusal = q.refusal("SendMessage", QueueUrl="q", MessageBody={"a": 1})

    assert refusal.code == "InvalidParameterValue"


def test_a_request_is_an_object(q: Sqs) -> None:
    with pytest.raises(Exception, match="must be a JSON object"):
        q.db.execute("select pgqs.invoke('SendMessage', '[]')")
