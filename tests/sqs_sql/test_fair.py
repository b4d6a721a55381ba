"""Fair queues: a standard queue becomes one with its first message that has a group."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.fixtures import clock
from tests.sqs_sql.caller import Sqs

if TYPE_CHECKING:
    import psycopg

    from tests.fixtures.databases import Connect

    Session = psycopg.Connection[Any]


@pytest.fixture
def q(sqs: Sqs) -> Sqs:
    sqs.create("q")
    return sqs


def ordering(sqs: Sqs) -> str:
    row = sqs.db.execute("select ordering from penstock.list_queues() where name = 'q'").fetchone()
    assert row is not None
    return str(row[0])


def test_a_queue_without_groups_stays_as_quick_as_it_is(q: Sqs) -> None:
    q.send()

    assert ordering(q) == "standard"


def test_the_first_group_makes_a_queue_fair(q: Sqs) -> None:
    q.send(body="a", MessageGroupId="tenant")

    (message,) = q.receive(AttributeNames=["All"])

    assert ordering(q) == "fair"
    assert message["Attributes"]["MessageGroupId"] == "tenant"
    assert "SequenceNumber" not in message["Attributes"]


def test_a_noisy_group_does_not_keep_the_others_waiting(q: Sqs) -> None:
    for number in range(20):
        q.send(body=f"noisy {number}", MessageGroupId="noisy")
    q.send(body="quiet", MessageGroupId="quiet")
    q.send(body="alone")

    assert {"quiet", "alone"} <= set(q.bodies(count=5))


def test_groups_are_texts_without_spaces(q: Sqs) -> None:
    for bad in ("", "a b", "ä", "x" * 129):
        refusal = q.refusal("SendMessage", QueueUrl="q", MessageBody="x", MessageGroupId=bad)
        assert refusal.code == "InvalidParameterValue"
        assert refusal.message.endswith("1 to 128 in length.")
    q.send(MessageGroupId="!" + "~" * 127)


def test_a_standard_queue_has_no_deduplication_ids(q: Sqs) -> None:
    refusal = q.refusal("SendMessage", QueueUrl="q", MessageBody="x", MessageDeduplicationId="d")

    assert refusal.code == "InvalidParameterValue"
    assert refusal.message.endswith(
        "The request include parameter that is not valid for this queue type."
    )


def test_nothing_is_lost_or_given_twice_when_a_queue_becomes_fair(q: Sqs) -> None:
    entries = [{"Id": str(number), "MessageBody": f"old {number}"} for number in range(10)]
    for _ in range(3):
        q("SendMessageBatch", QueueUrl="q", Entries=entries)
    held = q.receive(count=3, VisibilityTimeout=3600)
    late = q.receive(count=1, VisibilityTimeout=5)
    q.send(body="delayed", DelaySeconds=60)

    q.send(body="grouped", MessageGroupId="g")

    found = late + held
    while messages := q.receive(VisibilityTimeout=3600):
        found += messages
    assert len({message["MessageId"] for message in found}) == len(found) == 31
    clock.advance(q.db, 61)
    assert sorted(q.bodies()) == sorted(["delayed", late[0]["Body"]])
    for message in held:
        q.delete(message)


def test_a_transaction_that_was_open_meanwhile_is_not_lost(q: Sqs, connect: Connect) -> None:
    slow = Sqs(connect(autocommit=False))
    slow.send(body="slow")
    for number in range(5):
        q.send(body=str(number))
    assert q.bodies(count=2) == ["0", "1"]

    q.send(body="grouped", MessageGroupId="g")
    rest = q.bodies(count=2)
    slow.db.commit()

    assert sorted(rest + q.bodies()) == ["2", "3", "4", "grouped", "slow"]
    assert q.receive() == []


def test_a_queue_that_stands_among_late_messages_becomes_fair(q: Sqs, connect: Connect) -> None:
    slow, slower = (Sqs(connect(autocommit=False)) for _ in range(2))
    for body in "ab":
        slow.send(body=f"slow {body}")
        slower.send(body=f"slower {body}")
    q.send(body="first")
    assert q.bodies() == ["first"]
    slow.db.commit()
    slower.db.commit()
    q.send(body="last")
    found = q.bodies(count=1)

    q.send(body="grouped", MessageGroupId="g")

    expected = ["grouped", "last", "slow a", "slow b", "slower a", "slower b"]
    assert sorted(found + q.bodies()) == expected
    assert q.receive() == []


def test_a_queue_of_the_engine_with_a_filter_can_become_fair(q: Sqs) -> None:
    q.db.execute('select penstock.create_queue(\'few\', filter => \'{"headers": {"for": "me"}}\')')
    q.db.execute(
        "select penstock.publish_message('few', '\"yes\"', headers => '{\"for\": \"me\"}')"
    )
    q.db.execute("select penstock.publish_message('few', '\"no\"')")

    q.send("few", "grouped", MessageGroupId="g")

    assert q.bodies("few") == ["yes"]


def test_a_claim_that_looked_before_the_queue_became_fair_needs_care(q: Sqs) -> None:
    """A claim reads the queue and takes its lock in one statement, so the row may be older."""
    plain = """
        select s.plain from penstock_data.queues q,
            penstock_data.fast_path(q.id, q.topic_id, 'me', clock_timestamp(), 30) s
    """
    q.send("q", "1")
    assert q.bodies("q", 1) == ["1"]
    assert q.db.execute(plain).fetchall() == [(True,)]
    q.send("q", "2", MessageGroupId="a")
    assert ordering(q) == "fair"
    assert q.db.execute(plain).fetchall() == [(False,)]
