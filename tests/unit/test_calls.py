"""Calls are values: what they send and how they read the answer, without a database."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from penstock.client import calls
from penstock.errors import PayloadInvalid
from penstock.models import ClaimedMessage, MessageState, Notify, Ordering, QueueStatistics

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def test_release_sends_the_queue_the_id_and_the_token():
    call = calls.release("billing", 7, "t")
    assert call.sql == "select penstock.release_message(%s, %s::bigint, %s)"
    assert call.parameters == ("billing", 7, "t")
    assert call.read([(True,)]) is True


def test_a_claim_that_defers_tells_which_messages_are_suspects():
    call = calls.consume_deferring("q", "t", timedelta(seconds=30), 10)
    assert call.sql.count("%s") == len(call.parameters)
    answer = [
        (number, {}, None, None, 0, 3, NOON, NOON, None, None, number == 2) for number in (1, 2)
    ]
    found = call.read(answer)
    assert [each.id for each in found.messages] == [1, 2]
    assert found.suspects == [2]
    assert call.busy is not None
    assert isinstance(call.busy.messages, calls.Busy)


def test_options_left_out_are_not_sent():
    call = calls.create_queue("billing")
    assert call.sql == "select penstock.create_queue(%s)"
    assert call.parameters == ("billing",)


def test_options_given_are_sent_by_name_in_the_engine_s_units():
    call = calls.create_queue(
        "billing",
        topic="orders",
        max_delivery_attempts=0,
        ordering=Ordering.FIFO,
        keep_alive=timedelta(minutes=2),
        retry_base=timedelta(milliseconds=500),
        retry_cap=timedelta(0),
        filter={"headers": {"region": "eu"}},
        notify=Notify.NEVER,
    )
    assert call.sql.count("%s") == len(call.parameters)
    assert "topic_name => %s" in call.sql
    assert "exclusive" not in call.sql
    assert call.parameters == (
        *("billing", "orders", 0, 120, "fifo", 0.5, 0.0),
        '{"headers":{"region":"eu"}}',
        "never",
    )


@pytest.mark.parametrize(
    ("given", "sent"),
    [
        ("end", "end"),
        ("beginning", "beginning"),
        (NOON, "2026-01-01T12:00:00+00:00"),
    ],
)
def test_a_queue_starts_at_a_word_or_a_time(given: datetime | str, sent: str):
    assert calls.create_queue("q", start_at=given).parameters == ("q", sent)


def test_a_delay_becomes_a_time_in_the_database_and_not_here():
    call = calls.publish("orders", {"order": 7}, delay=timedelta(seconds=3), key="k")
    assert "penstock.clock() + %s::interval" in call.sql
    assert call.parameters == ("orders", '{"order":7}', timedelta(seconds=3), "k")


def test_a_null_payload_is_json_null_and_not_sql_null():
    assert calls.publish("orders", None).parameters == ("orders", "null")


def test_numbers_that_are_not_json_are_refused_before_they_are_sent():
    with pytest.raises(PayloadInvalid, match="JSON"):
        calls.publish("orders", float("nan"))


def test_publishing_many_sends_one_array_of_payloads_and_one_of_keys():
    call = calls.publish_many("orders", [{"a": 1}, "b"], keys=["x", None], priorities=[5])
    assert call.parameters == ("orders", ['{"a":1}', '"b"'], ["x", None], [5])
    assert call.read([(1,), (2,)]) == [1, 2]


def test_part_of_a_second_of_a_lease_is_rounded_up():
    assert calls.consume("q", "t", timedelta(milliseconds=1)).parameters == ("q", "t", 1)
    assert calls.extend("q", 1, "t", timedelta(seconds=1.5)).parameters == ("q", 1, "t", 2)


def test_consuming_from_an_empty_queue_gives_nothing():
    assert calls.consume("q", "t", timedelta(seconds=30)).read([]) is None
    assert calls.consume_batch("q", "t", timedelta(seconds=30), 10).read([]) == []


def test_a_claimed_row_is_read_as_a_message():
    row = (7, {"order": 7}, {"region": "eu"}, "customer-7", 5, 2, NOON, NOON, "c", "t")
    message = calls.consume("q", "t", timedelta(seconds=30)).read([row])
    assert message == ClaimedMessage(
        id=7,
        payload={"order": 7},
        headers={"region": "eu"},
        key="customer-7",
        priority=5,
        attempt=2,
        claimed_until=NOON,
        published_at=NOON,
        correlation_id="c",
        tenant_id="t",
    )


def test_a_lost_claim_extends_to_none():
    assert calls.extend("q", 1, "t", timedelta(seconds=5)).read([(None,)]) is None
    assert calls.extend("q", 1, "t", timedelta(seconds=5)).read([(NOON,)]) == NOON


def test_a_message_state_is_one_of_the_five_places():
    assert calls.message_state("q", 1).read([("claimed",)]) is MessageState.CLAIMED
    assert calls.message_state("q", 1).read([(None,)]) is None


def test_statistics_are_read_by_name_of_column():
    call = calls.queue_statistics("q")
    named = call.sql.removeprefix("select ").partition(" from ")[0].split(", ")
    assert named == list(QueueStatistics.__slots__)
    assert call.read([(1, 2, 3, 6, 0, 0, None)]).completed_count == 3


def test_a_queue_row_is_read_with_its_durations():
    wanted = {"headers": {"region": "eu"}}
    row = (1, "q", "t", "fair", "always", True, NOON, 3, 1, 300, NOON, None, wanted, NOON)
    queue = calls.list_queues().read([row])[0]
    assert queue.paused_at == NOON
    assert queue.ordering is Ordering.FAIR
    assert queue.notify is Notify.ALWAYS
    assert queue.filter == wanted
    assert (queue.retry_base, queue.retry_cap) == (timedelta(seconds=1), timedelta(minutes=5))


def test_dead_letters_are_requeued_all_or_some():
    assert calls.requeue_dead_letters("q").parameters == ("q",)
    assert calls.requeue_dead_letters("q", [1, 2]).parameters == ("q", [1, 2])
    assert calls.requeue_dead_letters("q", []).parameters == ("q", [])


def test_purging_dead_letters_without_a_queue_means_all_queues():
    assert calls.purge_dead_letters().parameters == (None,)
