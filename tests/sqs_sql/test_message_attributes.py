"""Message attributes: what may be sent, what comes back, and its digest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.sqs_sql.digests import attributes_md5, binary, text

if TYPE_CHECKING:
    from tests.sqs_sql.caller import Sqs

EVERY_TYPE = {
    "text": text("Bar"),
    "Text.custom": text("漢字 \U0001f600", "String.custom"),
    "number": text("-1.5e-3", "Number"),
    "number-int": text(" 42 ", "Number.int"),
    "bytes": binary(bytes(range(256))),
    "bytes_png": binary(b"\x89PNG", "Binary.png"),
    "имя": text("x"),
    "größe": text("1", "Number"),
    "Zebra": text("upper case sorts before lower"),
    "a1": text("x" * 10_000),
}


@pytest.fixture
def q(sqs: Sqs) -> Sqs:
    sqs.create("q")
    return sqs


def test_attributes_of_every_type_come_back_with_their_digest(q: Sqs) -> None:
    sent = q.send(MessageAttributes=EVERY_TYPE)

    (message,) = q.receive(MessageAttributeNames=["All"])

    assert message["MessageAttributes"] == EVERY_TYPE
    assert sent["MD5OfMessageAttributes"] == attributes_md5(EVERY_TYPE)
    assert message["MD5OfMessageAttributes"] == attributes_md5(EVERY_TYPE)


def test_the_digest_of_each_type_is_exact(q: Sqs) -> None:
    for name, value in EVERY_TYPE.items():
        sent = q.send(MessageAttributes={name: value})
        assert sent["MD5OfMessageAttributes"] == attributes_md5({name: value}), name


def test_the_digest_is_that_of_sqs(q: Sqs) -> None:
    # Recorded from SQS.
    sent = q.send(
        body="msg",
        MessageAttributes={
            "Hello": text("There"),
            "General": text("Kenobi"),
            "Help.Me": text("Me"),
        },
    )

    assert sent["MD5OfMessageAttributes"] == "4c360f3fdafd970e05fae2f149d997f5"


def test_filters_choose_attributes_and_the_digest_covers_those(q: Sqs) -> None:
    attributes = {"Hello": text("There"), "General": text("Kenobi"), "Help.Me": text("Me")}
    q.send(MessageAttributes=attributes)

    for filters, names in (
        (["All"], {"Hello", "General", "Help.Me"}),
        ([".*"], {"Hello", "General", "Help.Me"}),
        (["Hello", "General"], {"Hello", "General"}),
        (["Hello", "Nobody"], {"Hello"}),
        (["Hel.*"], {"Hello", "Help.Me"}),
        (["Help.*"], {"Help.Me"}),
        (["Hel*"], set()),
        (["Nobody"], set()),
        (["*"], set()),
        ([], set()),
    ):
        (message,) = q.receive(MessageAttributeNames=filters, VisibilityTimeout=0)
        found = message.get("MessageAttributes", {})
        assert found.keys() == names, filters
        digest = attributes_md5(found) if found else None
        assert message.get("MD5OfMessageAttributes") == digest


def test_a_digest_of_recorded_filters_is_that_of_sqs(q: Sqs) -> None:
    attributes = {"Hello": text("There"), "General": text("Kenobi"), "Help.Me": text("Me")}
    q.send(MessageAttributes=attributes)

    (message,) = q.receive(MessageAttributeNames=["Hel.*"])

    assert message["MD5OfMessageAttributes"] == "83fee93c1bcd8b9a5a923ffacdc636c7"


def test_empty_maps_are_as_good_as_none(q: Sqs) -> None:
    sent = q.send(MessageAttributes={}, MessageSystemAttributes={})

    assert sent.keys() == {"MessageId", "MD5OfMessageBody"}
    assert "MessageAttributes" not in q.receive(MessageAttributeNames=["All"])[0]


def test_ten_attributes_are_the_most(q: Sqs) -> None:
    many = {f"a{number}": text("x") for number in range(11)}

    refusal = q.refusal("SendMessage", QueueUrl="q", MessageBody="x", MessageAttributes=many)

    assert refusal.message == "Number of message attributes [11] exceeds the allowed maximum [10]."


def test_names_that_sqs_does_not_allow_are_refused(q: Sqs) -> None:
    names = ("a b", "a/b", "AWS.x", "aws.x", "Amazon.x", ".a", "a.", "a..b", "a\tb", "a$", "a:")
    for name in ("", "a" * 257, *names):
        refusal = q.refusal(
            "SendMessage", QueueUrl="q", MessageBody="x", MessageAttributes={name: text("x")}
        )
        assert refusal.code == "InvalidParameterValue", name
    assert q.receive() == []


def test_names_may_have_256_characters(q: Sqs) -> None:
    q.send(MessageAttributes={"a" * 256: text("x"), "A-z_0.9": text("x"), "AWSx": text("x")})

    assert len(q.receive(MessageAttributeNames=["All"])[0]["MessageAttributes"]) == 3


FAULTY: list[tuple[dict[str, Any], str]] = [
    (
        {"DataType": "String", "StringValue": ""},
        "Message (user) attribute 'a' must contain a non-empty value of type 'String'.",
    ),
    (
        {"DataType": "Binary", "BinaryValue": ""},
        "Message (user) attribute 'a' must contain a non-empty value of type 'Binary'.",
    ),
    (
        {"DataType": "String"},
        "Message (user) attribute 'a' must contain a non-empty value of type 'String'.",
    ),
    (
        {"StringValue": "x"},
        "The message attribute 'a' must contain non-empty message attribute type.",
    ),
    (
        {"DataType": "Colour", "StringValue": "x"},
        (
            "The message attribute 'a' has an invalid message attribute type, "
            "the set of supported type prefixes is Binary, Number, and String."
        ),
    ),
    (
        {"DataType": "Binary", "StringValue": "x"},
        "The message attribute 'a' with type 'Binary' must use field 'Binary'.",
    ),
    (
        {"DataType": "Number", "StringValue": "many"},
        "Can't cast the value of message (user) attribute 'a' to a number.",
    ),
    (
        {"DataType": "Binary", "BinaryValue": "?"},
        "The value of message (user) attribute 'a' is not valid base64.",
    ),
    (
        {"DataType": "String." + "x" * 250, "StringValue": "x"},
        "Length of message attribute 'a' type must be less than 256 bytes.",
    ),
]


def test_values_that_sqs_does_not_allow_are_refused(q: Sqs) -> None:
    for value, message in FAULTY:
        refusal = q.refusal(
            "SendMessage", QueueUrl="q", MessageBody="x", MessageAttributes={"a": value}
        )
        assert (refusal.code, refusal.message) == ("InvalidParameterValue", message)


def test_lists_of_values_are_not_supported_as_in_sqs(q: Sqs) -> None:
    value = {"DataType": "String", "StringListValues": ["x"]}

    refusal = q.refusal(
        "SendMessage", QueueUrl="q", MessageBody="x", MessageAttributes={"a": value}
    )

    assert refusal.code == "AWS.SimpleQueueService.UnsupportedOperation"


def test_values_have_the_characters_of_bodies(q: Sqs) -> None:
    attributes = {"a": text("\x01")}

    refusal = q.refusal("SendMessage", QueueUrl="q", MessageBody="x", MessageAttributes=attributes)

    assert refusal.code == "InvalidMessageContents"
