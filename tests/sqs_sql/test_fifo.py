"""FIFO queues: groups in order, runs of one group, and what stops and frees a group."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import pytest

from tests.concurrency.sessions import Background
from tests.fixtures import clock
from tests.fixtures.maintenance import maintain
from tests.sql.caller import Caller
from tests.sqs_sql.caller import Sqs

if TYPE_CHECKING:
    from tests.fixtures.databases import Connect

Q = "q.fifo"


@pytest.fixture
def q(sqs: Sqs) -> Sqs:
    sqs.create(Q, VisibilityTimeout="30")
    return sqs


def receive(sqs: Sqs, count: int = 10, **more: Any) -> list[dict[str, Any]]:
    return sqs.receive(Q, count, **more)


def bodies(sqs: Sqs, count: int = 10, **more: Any) -> list[str]:
    return sqs.bodies(Q, count, **more)


def delete(sqs: Sqs, *messages: dict[str, Any]) -> None:
    for message in messages:
        sqs.delete(message, Q)


def test_a_group_is_received_in_order(q: Sqs) -> None:
    q.post("g", *"abcdef")

    assert bodies(q) == list("abcdef")


def test_as_many_as_fit_come_from_one_group_before_the_next(q: Sqs) -> None:
    for body in ("a1", "b1", "a2", "b2", "a3", "c1"):
        q.post(body[0], body)

    assert bodies(q, 4) == ["a1", "a2", "a3", "b1"]
    assert bodies(q, 4) == ["c1"]
    assert bodies(q) == []


def test_a_group_in_flight_gives_nothing_else(q: Sqs) -> None:
    q.post("g", "1", "2", "3")
    assert bodies(q, 1) == ["1"]

    q.post("g", "4")
    q.post("h", "other")

    assert bodies(q) == ["other"]


@pytest.mark.parametrize("count", [1, 2, 3, 10])
def test_messages_behind_one_in_flight_do_not_hide_another_group_in_the_log(
    q: Sqs, count: int
) -> None:
    q.post("g", "1", "2", "3", "4")
    receive(q, 4)
    clock.advance(q.db, seconds=31)
    # The third and fourth are due again, but must wait for the second.
    assert bodies(q, 2) == ["1", "2"]

    q.post("h", "other")

    assert bodies(q, count) == ["other"]


def test_deleting_all_that_is_in_flight_frees_the_group(q: Sqs) -> None:
    q.post("g", "1", "2", "3", "4")
    held = receive(q, 2)

    delete(q, held[0])
    assert bodies(q) == []
    delete(q, held[1])

    assert bodies(q) == ["3", "4"]


def test_deleting_the_later_one_does_not_free_the_group(q: Sqs) -> None:
    q.post("g", "1", "2", "3")
    held = receive(q, 2)

    delete(q, held[1])

    assert bodies(q) == []
    delete(q, held[0])
    assert bodies(q) == ["3"]


def test_groups_come_in_the_order_in_which_they_became_available(q: Sqs) -> None:
    q.post("g1", "a1", "a2")
    q.post("g2", "b1", "b2")
    q.post("g3", "c1")
    first, second = receive(q, 1), receive(q, 1)
    delete(q, *first)
    delete(q, *second)

    assert [bodies(q, 1) for _ in range(3)] == [["c1"], ["a2"], ["b2"]]


def test_a_group_that_comes_back_goes_behind_the_waiting_ones(q: Sqs) -> None:
    q.post("g1", "a1")
    q.post("g2", "b1")
    q.post("g3", "c1")
    assert bodies(q, 1, VisibilityTimeout=5) == ["a1"]
    assert bodies(q, 1, VisibilityTimeout=6) == ["b1"]
    clock.advance(q.db, 10)

    assert [bodies(q, 1) for _ in range(3)] == [["c1"], ["a1"], ["b1"]]


def test_a_group_goes_on_at_once_behind_a_message_that_lapsed(q: Sqs) -> None:
    engine = Caller(q.db)
    engine.publish(Q, "first", key="f", priority=5)
    engine.publish(Q, "urgent", key="h", priority=5)
    engine.publish(Q, "lapses", key="g", expires_at=engine.at(seconds=30))
    engine.publish(Q, "next", key="g", priority=5)
    # All are in their groups by now.
    assert bodies(q, 1, VisibilityTimeout=600) == ["first"]
    clock.advance(q.db, 31)

    # The full batch has moved the floor of the higher priority up to this moment.
    assert bodies(q, 2) == ["urgent", "next"]


def test_what_was_not_deleted_comes_back_in_order(q: Sqs) -> None:
    q.post("g", *"abcde")
    held = receive(q, 3)
    delete(q, held[0])
    clock.advance(q.db, 31)

    assert bodies(q) == ["b", "c", "d", "e"]


def test_a_message_made_visible_early_comes_although_later_ones_are_in_flight(q: Sqs) -> None:
    q.post("g", "1", "2", "3")
    held = receive(q, 2)

    q.hide(held[0], 0, Q)

    again = receive(q)
    assert [message["Body"] for message in again] == ["1"]
    delete(q, *again)
    assert bodies(q) == []
    delete(q, held[1])
    assert bodies(q) == ["3"]


def test_a_later_message_made_visible_waits_for_the_earlier_one(q: Sqs) -> None:
    q.post("g", "1", "2", "3", "4")
    held = receive(q, 3)

    q.hide(held[1], 0, Q)

    assert bodies(q) == []
    delete(q, held[0])
    assert bodies(q) == ["2"]
    assert bodies(q) == []
    delete(q, held[2])
    assert bodies(q) == []


def test_an_extended_message_holds_up_the_later_ones(q: Sqs) -> None:
    q.post("g", "1", "2", "3", "4")
    held = receive(q, 3)
    q.hide(held[1], 120, Q)
    clock.advance(q.db, 31)

    assert bodies(q, VisibilityTimeout=200) == ["1"]
    assert bodies(q) == []
    clock.advance(q.db, 90)
    assert bodies(q) == []
    clock.advance(q.db, 110)

    assert bodies(q) == ["1", "2", "3", "4"]


def test_held_up_messages_come_when_the_extended_one_is_deleted(q: Sqs) -> None:
    q.post("g", "1", "2", "3", "4")
    held = receive(q, 3)
    q.hide(held[0], 120, Q)
    clock.advance(q.db, 31)
    assert bodies(q) == []

    delete(q, held[0])

    (two, *rest) = receive(q, AttributeNames=["All"])
    assert [two["Body"], *(message["Body"] for message in rest)] == ["2", "3", "4"]
    assert two["Attributes"]["ApproximateReceiveCount"] == "2"
    assert rest[-1]["Attributes"]["ApproximateReceiveCount"] == "1"


def test_single_receives_find_what_was_held_up(q: Sqs) -> None:
    q.post("g", "1", "2")
    held = receive(q, 2)
    q.hide(held[0], 60, Q)
    q.hide(held[1], 5, Q)
    clock.advance(q.db, 6)
    assert bodies(q, 1) == []

    delete(q, held[0])

    assert bodies(q, 1) == ["2"]


def test_visibility_zero_gives_the_same_run_again(q: Sqs) -> None:
    q.post("g", "1", "2", "3")

    assert bodies(q, 2, VisibilityTimeout=0) == ["1", "2"]
    assert bodies(q, 10, VisibilityTimeout=0) == ["1", "2", "3"]
    assert bodies(q) == ["1", "2", "3"]


def test_a_delayed_queue_keeps_its_order(sqs: Sqs) -> None:
    sqs.create(Q, DelaySeconds="10")
    sqs.post("g", "1")
    clock.advance(sqs.db, 5)
    sqs.post("g", "2")
    clock.advance(sqs.db, 6)

    assert bodies(sqs) == ["1"]
    clock.advance(sqs.db, 5)
    assert bodies(sqs) == []
    clock.advance(sqs.db, 31)
    assert bodies(sqs) == ["1", "2"]


def test_messages_that_end_with_their_retention_free_their_group(sqs: Sqs) -> None:
    sqs.create(Q, MessageRetentionPeriod="60")
    sqs.post("g", "old1", "old2")
    assert bodies(sqs, 1, VisibilityTimeout=5) == ["old1"]
    clock.advance(sqs.db, 61)
    sqs.post("g", "new")

    assert bodies(sqs) == ["new"]


def test_maintenance_ends_old_messages_and_keeps_the_order(sqs: Sqs) -> None:
    sqs.create(Q, MessageRetentionPeriod="60")
    sqs.post("g", "old1", "old2", "old3")
    receive(sqs, 1, VisibilityTimeout=1)
    clock.advance(sqs.db, 61)
    sqs.post("g", "new1", "new2")
    maintain(sqs.db)
    assert sqs.counts(Q) == (2, 0, 0)

    assert bodies(sqs) == ["new1", "new2"]


def test_an_expired_handle_cannot_delete(q: Sqs) -> None:
    q.post("g", "1")
    (message,) = receive(q)
    clock.advance(q.db, 31)
    handle = message["ReceiptHandle"]

    refusal = q.refusal("DeleteMessage", QueueUrl=Q, ReceiptHandle=handle)

    assert refusal.code == "InvalidParameterValue"
    assert refusal.message == (
        f"Value {handle} for parameter ReceiptHandle is invalid. "
        "Reason: The receipt handle has expired."
    )
    again = receive(q)
    assert q.refusal("DeleteMessage", QueueUrl=Q, ReceiptHandle=handle) == refusal
    delete(q, *again)
    delete(q, *again)
    delete(q, message)


def test_counts_tell_what_a_group_holds(q: Sqs) -> None:
    q.post("g", *"abcdef")
    assert q.counts(Q) == (6, 0, 0)
    held = receive(q, 4)
    assert q.counts(Q) == (2, 4, 0)
    delete(q, held[0])
    q.hide(held[2], 0, Q)
    assert q.counts(Q) == (3, 2, 0)
    receive(q)
    assert q.counts(Q) == (3, 2, 0)
    delete(q, held[1], held[3])
    clock.advance(q.db, 31)
    assert bodies(q) == ["c", "e", "f"]
    assert q.counts(Q) == (0, 3, 0)


def test_a_purged_queue_begins_anew(q: Sqs) -> None:
    q.post("g", "1", "2")
    receive(q, 1)
    q("PurgeQueue", QueueUrl=Q)
    q.post("g", "3", "4")

    assert bodies(q) == ["3", "4"]


def test_a_delay_is_the_queues_alone(q: Sqs) -> None:
    more = {"MessageGroupId": "g", "MessageDeduplicationId": "d"}

    refusal = q.refusal("SendMessage", QueueUrl=Q, MessageBody="x", DelaySeconds=2, **more)

    assert refusal.message == (
        "Value 2 for parameter DelaySeconds is invalid. "
        "Reason: The request include parameter that is not valid for this queue type."
    )
    q.send(Q, "x", DelaySeconds=0, **more)


def test_a_message_needs_its_group(q: Sqs) -> None:
    refusal = q.refusal("SendMessage", QueueUrl=Q, MessageBody="x", MessageDeduplicationId="d")

    assert (refusal.code, refusal.message) == (
        "MissingParameter",
        "The request must contain the parameter MessageGroupId.",
    )


def test_a_repeated_receive_is_given_the_same(q: Sqs) -> None:
    q.post("g", "1", "2", "3")
    first = receive(q, 2, ReceiveRequestAttemptId="try")
    clock.advance(q.db, 20)

    assert receive(q, 2, ReceiveRequestAttemptId="try") == first

    clock.advance(q.db, 20)
    assert bodies(q) == []
    assert receive(q, 2, ReceiveRequestAttemptId="other") == []
    delete(q, *first)
    assert bodies(q, ReceiveRequestAttemptId="try") == ["3"]


def test_a_repeated_receive_is_a_new_one_when_something_happened_or_it_is_late(q: Sqs) -> None:
    q.post("g", "1")
    q.post("h", "2")
    (first,) = receive(q, 1, ReceiveRequestAttemptId="try")
    q.hide(first, 0, Q)
    assert bodies(q, 1, ReceiveRequestAttemptId="try", VisibilityTimeout=600) == ["2"]
    clock.advance(q.db, 301)

    assert bodies(q, 1, ReceiveRequestAttemptId="try") == ["1"]


def test_attempt_ids_are_of_fifo_queues_and_have_their_characters(q: Sqs) -> None:
    q.create("q")
    for queue, attempt in (("q", "a"), (Q, "a b"), (Q, ""), (Q, "x" * 129)):
        refusal = q.refusal("ReceiveMessage", QueueUrl=queue, ReceiveRequestAttemptId=attempt)
        assert refusal.code == "InvalidParameterValue"


def test_two_receivers_at_once_share_no_group(q: Sqs, connect: Connect) -> None:
    q.post("g", "1", "2", "3")
    q.post("h", "4")
    first, second = Sqs(connect(autocommit=False)), Sqs(connect())
    q.db.execute("select penstock.configure('lock_wait', '10 seconds')")
    assert bodies(first, 2) == ["1", "2"]
    waiting = Background(lambda: bodies(second))

    first.db.commit()

    assert waiting.result() == ["4"]


def test_a_receiver_that_rolls_back_leaves_the_group_to_the_next(q: Sqs, connect: Connect) -> None:
    q.post("g", "1", "2")
    first = Sqs(connect(autocommit=False))
    assert bodies(first) == ["1", "2"]
    first.db.rollback()

    assert bodies(q) == ["1", "2"]


def test_a_delete_that_is_not_committed_does_not_free_the_group(q: Sqs, connect: Connect) -> None:
    q.post("g", "1", "2")
    held = receive(q, 1)
    slow = Sqs(connect(autocommit=False))
    delete(slow, *held)
    assert bodies(q) == []

    slow.db.commit()

    assert bodies(q) == ["2"]


def test_a_message_given_back_late_keeps_its_place(q: Sqs, connect: Connect) -> None:
    q.post("g", "1", "2", "3")
    held = receive(q, 2)
    slow = Sqs(connect(autocommit=False))
    slow.hide(held[0], 0, Q)
    q.post("h", "other")
    assert bodies(q) == ["other"]

    slow.db.commit()

    assert bodies(q) == ["1"]
    delete(q, held[1])
    assert bodies(q) == []


def test_senders_and_receivers_at_once_keep_every_group_in_order(q: Sqs, connect: Connect) -> None:
    def send(sender: Sqs, group: str) -> None:
        for number in range(20):
            q_body = f"{group}{number:02}"
            sender.send(Q, q_body, MessageGroupId=group, MessageDeduplicationId=q_body)

    seen: list[str] = []

    def consume(receiver: Sqs) -> None:
        while len(seen) < 80:
            for message in receive(receiver, 3):
                seen.append(message["Body"])
                delete(receiver, message)

    senders = [Background(send, Sqs(connect()), group) for group in "abcd"]
    receivers = [Background(consume, Sqs(connect())) for _ in range(2)]
    for thread in (*senders, *receivers):
        thread.result()

    assert len(seen) == 80
    for group, found in itertools.groupby(sorted(seen, key=lambda body: body[0]), lambda b: b[0]):
        assert list(found) == [f"{group}{number:02}" for number in range(20)]


def test_an_engine_consumer_sees_the_same_runs(q: Sqs) -> None:
    mq = Caller(q.db)
    q.post("g", "1", "2", "3")
    first, second = mq.consume(Q, 2)

    assert (first.payload, second.payload) == ("1", "2")
    assert mq.nack(Q, first.message_id, delay_seconds=0)
    assert mq.payloads(Q) == ["1"]
    assert mq.ack(Q, first.message_id)
    assert mq.ack(Q, second.message_id)
    assert mq.payloads(Q) == ["3"]
    assert mq("cleanup_queue_messages", Q) == 2
    assert mq("cleanup_queue_messages", Q) == 0


def test_dead_letters_of_the_engine_free_their_group(q: Sqs) -> None:
    mq = Caller(q.db)
    q.post("g", "1", "2", "3")
    (first, second) = mq.consume(Q, 2)
    assert mq("bury_message", Q, first.message_id, "me")
    assert mq("requeue_dlq_messages", Q) == 1
    assert mq.payloads(Q) == []
    assert mq.ack(Q, second.message_id)

    assert mq.payloads(Q) == ["3", "1"]


def test_a_new_group_does_not_wait_for_ever_behind_busy_ones(q: Sqs) -> None:
    for group in "abc":
        q.post(group, *(f"{group}{number}" for number in range(5)))
    delete(q, *receive(q, 1))
    q.post("new", "new")

    found = []
    for _ in range(6):
        clock.advance(q.db, 1)
        (message,) = receive(q, 1)
        found.append(message["Body"])
        delete(q, message)

    assert "new" in found


def test_senders_of_one_queue_never_wait_for_those_of_another(q: Sqs, connect: Connect) -> None:
    """Many queues share the rows that stand for names; senders lock the queue's own row."""
    names = [
        name
        for (name,) in q.db.execute(
            """
            select unnest((array_agg(n.name))[1:2])
            from (select 'c' || n || '.fifo' as name from generate_series(1, 300) n) n
            group by hashtextextended('senders ' || n.name, 0) & 4095
            having count(*) > 1 limit 2
            """
        )
    ][:2]
    for name in names:
        q.create(name)
    holder = Sqs(connect(autocommit=False))
    holder.post("a", "1", queue=names[0])
    Sqs(connect(lock_timeout="5s")).post("a", "1", queue=names[1])
    holder.db.rollback()
