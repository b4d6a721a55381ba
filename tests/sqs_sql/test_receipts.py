"""Receipt handles: deleting, changing visibility, and what old handles can do."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

import pytest

from tests.concurrency.sessions import in_background
from tests.fixtures import clock
from tests.sqs_sql.caller import Sqs

if TYPE_CHECKING:
    from tests.fixtures.databases import Connect

NONSENSE = ["x", "?", "AAAA", base64.b64encode(b"penstock:1:2:3:4").decode(), "a" * 2000]


@pytest.fixture
def q(sqs: Sqs) -> Sqs:
    sqs.create("q", VisibilityTimeout="30")
    return sqs


def test_a_deleted_message_is_gone(q: Sqs) -> None:
    q.send()
    (message,) = q.receive()

    assert q("DeleteMessage", QueueUrl="q", ReceiptHandle=message["ReceiptHandle"]) == {}

    assert q.counts() == (0, 0, 0)
    clock.advance(q.db, 31)
    assert q.receive() == []


def test_deleting_twice_is_no_error(q: Sqs) -> None:
    q.send()
    (message,) = q.receive()

    q.delete(message)
    q.delete(message)


def test_each_receive_has_a_handle_of_its_own(q: Sqs) -> None:
    q.send()
    handles = set()
    for _ in range(3):
        handles.add(q.receive()[0]["ReceiptHandle"])
        clock.advance(q.db, 31)

    assert len(handles) == 3


def test_nonsense_is_no_handle(q: Sqs) -> None:
    for handle in NONSENSE:
        for action in ("DeleteMessage", "ChangeMessageVisibility"):
            refusal = q.refusal(action, QueueUrl="q", ReceiptHandle=handle, VisibilityTimeout=1)
            assert (refusal.code, refusal.message) == (
                "ReceiptHandleIsInvalid",
                f'The input receipt handle "{handle}" is not a valid receipt handle.',
            )


def test_a_handle_is_for_its_queue_alone(q: Sqs) -> None:
    q.create("other")
    q.send()
    (message,) = q.receive()

    refusal = q.refusal("DeleteMessage", QueueUrl="other", ReceiptHandle=message["ReceiptHandle"])

    assert refusal.code == "ReceiptHandleIsInvalid"


def test_line_breaks_in_a_handle_do_not_matter(q: Sqs) -> None:
    q.send()
    handle = q.receive()[0]["ReceiptHandle"]

    q("DeleteMessage", QueueUrl="q", ReceiptHandle=handle[:40] + "\n" + handle[40:] + "\n")

    assert q.counts() == (0, 0, 0)


def test_an_old_handle_deletes_what_is_visible_again(q: Sqs) -> None:
    q.send()
    (message,) = q.receive()
    clock.advance(q.db, 31)
    q.create("nudge")

    q.delete(message)

    assert q.receive() == []


def test_an_old_handle_deletes_what_another_consumer_holds(q: Sqs) -> None:
    for body in ("a", "b", "c"):
        q.send(body=body)
    old = q.receive()
    clock.advance(q.db, 31)
    new = q.receive()
    assert len(new) == 3

    q.delete(old[1])

    assert q.counts() == (0, 2, 0)
    q.delete(new[1])
    clock.advance(q.db, 31)
    assert q.bodies() == ["a", "c"]


def test_a_message_can_be_hidden_for_longer(q: Sqs) -> None:
    q.send()
    (message,) = q.receive()
    clock.advance(q.db, 20)

    q.hide(message, 60)

    clock.advance(q.db, 55)
    assert q.receive() == []
    clock.advance(q.db, 6)
    assert len(q.receive()) == 1


def test_a_message_can_be_hidden_for_less(q: Sqs) -> None:
    for body in "abc":
        q.send(body=body)
    held = q.receive(VisibilityTimeout=3600)
    clock.advance(q.db, 1)
    assert q.receive() == []

    q.hide(held[1], 5)

    clock.advance(q.db, 4)
    assert q.receive() == []
    clock.advance(q.db, 1.1)
    assert q.bodies() == ["b"]
    q.delete(held[0])
    q.delete(held[2])
    assert q.counts() == (0, 1, 0)


def test_a_message_is_visible_at_once_with_zero(q: Sqs) -> None:
    q.send(body="a")
    q.send(body="b")
    first = q.receive()

    q.hide(first[0], 0)

    (again,) = q.receive(AttributeNames=["All"])
    assert again["Body"] == "a"
    assert again["Attributes"]["ApproximateReceiveCount"] == "2"
    q.delete(again)
    q.delete(first[1])
    assert q.counts() == (0, 0, 0)


def test_a_changed_visibility_is_not_remembered(q: Sqs) -> None:
    q.send()
    (message,) = q.receive()
    q.hide(message, 5)
    clock.advance(q.db, 6)

    q.receive()
    clock.advance(q.db, 29)

    assert q.receive() == []


def test_a_message_is_hidden_for_twelve_hours_in_all(q: Sqs) -> None:
    q.send()
    (message,) = q.receive(VisibilityTimeout=43200)
    clock.advance(q.db, 100)

    refusal = q.refusal(
        "ChangeMessageVisibility",
        QueueUrl="q",
        ReceiptHandle=message["ReceiptHandle"],
        VisibilityTimeout=43200,
    )

    assert refusal.code == "InvalidParameterValue"
    assert refusal.message == (
        "Value 43200 for parameter VisibilityTimeout is invalid. Reason: "
        "Total VisibilityTimeout for the message is beyond the limit [43200 seconds]."
    )
    q.hide(message, 43000)
    assert q.counts() == (0, 1, 0)


def test_visibility_has_its_range(q: Sqs) -> None:
    q.send()
    handle = q.receive()[0]["ReceiptHandle"]

    for value in (-1, 43201, "x"):
        refusal = q.refusal(
            "ChangeMessageVisibility", QueueUrl="q", ReceiptHandle=handle, VisibilityTimeout=value
        )
        assert refusal.code == "InvalidParameterValue"
    for missing in ("ReceiptHandle", "VisibilityTimeout"):
        request = {"ReceiptHandle": handle, "VisibilityTimeout": 1, missing: None}
        refusal = q.refusal("ChangeMessageVisibility", QueueUrl="q", **request)
        assert refusal.message == f"The request must contain the parameter {missing}."


def test_visibility_of_a_deleted_message_cannot_be_changed(q: Sqs) -> None:
    q.send()
    (message,) = q.receive()
    q.delete(message)

    refusal = q.refusal(
        "ChangeMessageVisibility",
        QueueUrl="q",
        ReceiptHandle=message["ReceiptHandle"],
        VisibilityTimeout=5,
    )

    assert refusal.code == "InvalidParameterValue"
    assert refusal.message.endswith(
        "Reason: Message does not exist or is not available for visibility timeout change."
    )


def test_an_old_handle_hides_what_came_back_by_itself(q: Sqs) -> None:
    q.send()
    (message,) = q.receive()
    clock.advance(q.db, 31)

    q.hide(message, 10)

    assert q.receive() == []
    assert q.counts() == (0, 1, 0)
    clock.advance(q.db, 11)
    assert len(q.receive()) == 1


def test_an_old_handle_hides_what_another_consumer_holds(q: Sqs) -> None:
    q.send()
    (old,) = q.receive()
    clock.advance(q.db, 31)
    q.receive()

    q.hide(old, 100)

    clock.advance(q.db, 95)
    assert q.receive() == []


def test_a_handle_that_is_two_receives_old_cannot_hide_what_is_visible(q: Sqs) -> None:
    q.send()
    (oldest,) = q.receive()
    clock.advance(q.db, 31)
    q.receive()
    clock.advance(q.db, 31)

    refusal = q.refusal(
        "ChangeMessageVisibility",
        QueueUrl="q",
        ReceiptHandle=oldest["ReceiptHandle"],
        VisibilityTimeout=5,
    )

    assert refusal.code == "AWS.SimpleQueueService.MessageNotInflight"


def test_an_old_handle_hides_what_is_being_taken_back(q: Sqs, connect: Connect) -> None:
    """Housekeeping, or another receive, ends the claim at this very moment."""
    q.send()
    (message,) = q.receive()
    clock.advance(q.db, 31)
    keeper, late = connect(autocommit=False), connect()
    keeper.execute("select penstock.maintain_step('claims taken back')")

    waiting = in_background(q.db, late, lambda: Sqs(late).hide(message, 60))
    keeper.commit()
    waiting.result()

    assert q.counts() == (0, 1, 0)
