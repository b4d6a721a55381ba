"""invoke_on: what servers call, many requests to one queue in one statement."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from psycopg.types.json import Jsonb

from tests.fixtures import clock
from tests.sql.caller import Caller
from tests.sqs_sql.caller import Sqs

if TYPE_CHECKING:
    from tests.fixtures.databases import Connect

CONTEXT = {"account": "000000000000", "region": "us-east-1", "sender_id": "AIDAME"}


@pytest.fixture
def q(sqs: Sqs) -> Sqs:
    sqs.create("q", VisibilityTimeout="60")
    return sqs


def on(sqs: Sqs, action: str, *requests: Any, queue: str = "q", **context: Any) -> list[Any]:
    rows = sqs.db.execute(
        "select pgqs.invoke_on(%s, %s, %s, %s)",
        (action, queue, Jsonb(requests), Jsonb(CONTEXT | context)),
    )
    return [json.loads(row[0]) for row in rows]


def take(sqs: Sqs, *counts: int) -> list[list[dict[str, Any]]]:
    answers = on(sqs, "ReceiveMessage", *({"MaxNumberOfMessages": count} for count in counts))
    return [answer.get("Messages", []) for answer in answers]


def test_an_answer_is_what_invoke_answers(q: Sqs) -> None:
    body = 'gr\u00fc\u00dfe \U0001f600 "quoted" \\ \t\r\n/'
    [sent] = on(q, "SendMessage", {"MessageBody": body})
    [[received]] = take(q, 1)
    assert received["Body"] == body
    assert received["MessageId"] == sent["MessageId"]
    assert received["MD5OfBody"] == sent["MD5OfMessageBody"]
    clock.advance(q.db, 61)
    [again] = q.receive("q", 1, AttributeNames=["SenderId"])
    assert again.pop("Attributes") == {"SenderId": "AIDAME"}
    assert again | {"ReceiptHandle": ""} == received | {"ReceiptHandle": ""}


def test_what_is_no_text_is_delivered_as_its_json(q: Sqs) -> None:
    Caller(q.db).publish("q", {"a": 'b "c"'})
    [[received]] = take(q, 1)
    assert json.loads(received["Body"]) == {"a": 'b "c"'}


def test_several_receives_share_a_claim_and_each_finishes_its_own(q: Sqs) -> None:
    on(q, "SendMessage", *({"MessageBody": str(number)} for number in range(8)))
    first, second, third, fourth = take(q, 1, 3, 10, 2)
    assert [len(each) for each in (first, second, third, fourth)] == [1, 3, 4, 0]
    bodies = [message["Body"] for each in (first, second, third) for message in each]
    assert bodies == [str(number) for number in range(8)]

    def entries(messages: list[dict[str, Any]]) -> dict[str, Any]:
        handles = [message["ReceiptHandle"] for message in messages]
        return {"Entries": [{"Id": str(n), "ReceiptHandle": h} for n, h in enumerate(handles)]}

    # All of the first and third, a part of the second.
    answers = on(
        q, "DeleteMessageBatch", entries(first), entries(third), entries(second[:1]), entries([])
    )
    assert [len(answer.get("Successful", ())) for answer in answers] == [1, 4, 1, 0]
    assert answers[3]["__error"]["shape"] == "EmptyBatchRequest"
    assert q.counts() == (0, 2, 0)
    clock.advance(q.db, 61)
    assert sorted(q.bodies()) == ["2", "3"]


def test_a_handle_with_anothers_token_deletes_nothing(q: Sqs) -> None:
    on(q, "SendMessage", {"MessageBody": "a"}, {"MessageBody": "b"})
    [[a]], [[b]] = take(q, 1), take(q, 1)
    queue, message, attempt, _ = a["ReceiptHandle"].split("-")
    forged = "-".join([queue, message, attempt, b["ReceiptHandle"].split("-")[3]])
    done = Caller(q.db).value(
        "select penstock_data.ack_claims('q', %s::bigint[], %s::text[])",
        [int(message), int(message)],
        [forged.split("-")[3], None],
    )
    assert done == []
    assert q.counts() == (0, 2, 0)


@pytest.mark.parametrize("action", ["CreateQueue", "Nonsense", None])
def test_only_actions_on_messages_are_known(q: Sqs, action: str | None) -> None:
    with pytest.raises(psycopg.Error) as caught:
        on(q, action, {})  # type: ignore[arg-type]
    assert caught.value.sqlstate == "PQ400"


def test_a_queue_that_is_not_there_is_said_to_each(q: Sqs) -> None:
    answers = on(q, "SendMessage", {"MessageBody": "x"}, {}, queue="none", protocol="query")
    assert [answer["__error"]["shape"] for answer in answers] == ["QueueDoesNotExist"] * 2
    assert answers[0]["__error"]["message"].endswith("for this wsdl version.")


def test_a_restored_database_is_noticed_by_a_batch_of_deletes(q: Sqs, connect: Connect) -> None:
    on(q, "SendMessage", {"MessageBody": "a"}, {"MessageBody": "b"})
    [messages] = take(q, 10)
    q.db.execute("update penstock_data.settings set incarnation_xid = '7'")
    # Another session: this one knows that it is at home.
    other = Sqs(connect())
    with pytest.raises(psycopg.Error) as caught:
        on(other, "DeleteMessage", *({"ReceiptHandle": m["ReceiptHandle"]} for m in messages))
    assert caught.value.sqlstate == "PS010"


def test_a_long_backlog_is_counted_about_right(q: Sqs) -> None:
    q.create("other")
    for topic, count in (("q", 4000), ("other", 9000), ("q", 12000), ("other", 4000), ("q", 1000)):
        q.db.execute(
            "select count(*) from penstock.publish_messages(%s, array("
            "select to_jsonb(n::text) from generate_series(1, %s) n))",
            (topic, count),
        )
    take(q, 10)
    waiting, in_flight, delayed = q.counts()
    assert 14_000 < waiting < 20_000
    assert (in_flight, delayed) == (10, 0)


def test_a_backlog_is_counted_exactly_while_it_is_short(q: Sqs) -> None:
    caller = Caller(q.db)
    caller.publish_many("q", list(range(4000)))
    caller.publish("q", "later", deliver_after=caller.at(seconds=60))
    take(q, 10, 10)
    assert q.counts() == (3980, 20, 1)
