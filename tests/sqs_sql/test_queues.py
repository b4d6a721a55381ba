"""Queues by their names and addresses: create, find, list, delete, purge."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

from tests.fixtures import clock
from tests.sqs_sql.caller import Sqs

if TYPE_CHECKING:
    import psycopg

    Session = psycopg.Connection[Any]


def test_a_queue_has_a_url_with_the_id_of_the_system(sqs: Sqs) -> None:
    answer = sqs("CreateQueue", QueueName="my-queue")

    assert re.fullmatch(r"pgqs://pgqs\.system:[0-9a-f-]{36}/my-queue", answer["QueueUrl"])
    assert sqs("GetQueueUrl", QueueName="my-queue") == answer


def test_a_server_has_urls_with_its_own_address(db: Session) -> None:
    sqs = Sqs(db, base_url="http://localhost:9324/")

    answer = sqs("CreateQueue", QueueName="q")

    assert answer == {"QueueUrl": "http://localhost:9324/000000000000/q"}


def test_a_server_can_have_urls_by_a_pattern(db: Session) -> None:
    sqs = Sqs(db, region="eu-west-1", queue_url="http://sqs/{region}/{account}/{name}")

    answer = sqs("CreateQueue", QueueName="q")

    assert answer == {"QueueUrl": "http://sqs/eu-west-1/000000000000/q"}


URLS = [
    "q",
    "000000000000/q",
    "/000000000000/q",
    "http://localhost:9324/000000000000/q",
    "https://sqs.us-east-1.amazonaws.com/000000000000/q",
    "http://us-east-1.queue.localhost:4566/000000000000/q/",
    "http://localhost:9324/queue/us-east-1/000000000000/q",
    "pgqs://pgqs.system:9efcf974-44ab-4ac1-8a84-3897ee337d83/q",
]


def test_a_queue_is_found_by_a_url_of_any_form(sqs: Sqs) -> None:
    sqs.create("q")

    for url in URLS:
        assert "MessageId" in sqs.send(url)


def test_accounts_and_regions_have_queues_of_their_own(db: Session) -> None:
    home = Sqs(db)
    other = Sqs(db, account="111111111111")
    abroad = Sqs(db, account="111111111111", region="eu-west-1")
    for owner, body in ((home, "home"), (other, "other"), (abroad, "abroad")):
        owner.create("q")
        owner.send("q", body)

    assert len(abroad("ListQueues")["QueueUrls"]) == 1
    assert home.bodies("http://any/111111111111/q") == ["other"]
    assert home.bodies("http://any/eu-west-1/111111111111/q") == ["abroad"]
    assert home.bodies() == ["home"]
    assert other("GetQueueUrl", QueueName="q", QueueOwnerAWSAccountId="000000000000")


def test_the_name_in_the_engine_is_the_bare_name_at_home(db: Session) -> None:
    found = db.execute(
        "select pgqs.engine_queue('000000000000', 'us-east-1', 'q'), "
        "pgqs.engine_queue('111111111111', 'eu-west-1', 'q')"
    ).fetchone()

    assert found == ("q", "111111111111/eu-west-1/q")


@pytest.mark.parametrize("protocol", ["json", "query"])
def test_an_unknown_queue_is_refused_in_the_words_of_the_protocol(
    db: Session, protocol: str
) -> None:
    refusal = Sqs(db, protocol=protocol).refusal("SendMessage", QueueUrl="none", MessageBody="x")

    assert refusal.code == "AWS.SimpleQueueService.NonExistentQueue"
    assert refusal.shape == "QueueDoesNotExist"
    assert refusal.status == 400
    assert refusal.message == (
        "The specified queue does not exist."
        if protocol == "json"
        else "The specified queue does not exist for this wsdl version."
    )


def test_a_request_without_its_queue_is_refused(sqs: Sqs) -> None:
    refusal = sqs.refusal("SendMessage", MessageBody="x")

    assert refusal.code == "MissingParameter"
    assert refusal.message == "The request must contain the parameter QueueUrl."


def test_names_are_those_that_sqs_allows(sqs: Sqs) -> None:
    for name in ("", "a b", "q.fifo", "a" * 81, "a/b", "ü", "a.b"):
        refusal = sqs.refusal("CreateQueue", QueueName=name)
        assert refusal.code in {"InvalidParameterValue", "MissingParameter"}, name
    for name in ("q", "a" * 76 + ".fifo", ".fifo", "q.fifo.fifo"):
        attributes = {"FifoQueue": "true"}
        refusal = sqs.refusal("CreateQueue", QueueName=name, Attributes=attributes)
        assert refusal.code == "InvalidParameterValue", name
    sqs.create("A-z_09" + "a" * 74)
    sqs.create("a" * 75 + ".fifo")


def test_creating_a_queue_again_gives_its_url(sqs: Sqs) -> None:
    first = sqs("CreateQueue", QueueName="q", Attributes={"DelaySeconds": "5"})

    assert sqs("CreateQueue", QueueName="q") == first
    assert sqs("CreateQueue", QueueName="q", Attributes={"DelaySeconds": "5"}) == first


def test_creating_a_queue_again_with_another_attribute_is_refused(sqs: Sqs) -> None:
    sqs.create("q", DelaySeconds="5")

    refusal = sqs.refusal("CreateQueue", QueueName="q", Attributes={"DelaySeconds": "6"})

    assert refusal.code == "QueueAlreadyExists"
    assert refusal.shape == "QueueNameExists"
    assert refusal.message == (
        "A queue already exists with the same name and a different value for attribute DelaySeconds"
    )


def test_queues_are_listed_by_prefix(sqs: Sqs) -> None:
    for name in ("b2", "a1", "b1", "b3.fifo"):
        sqs.create(name)

    names = [url.rsplit("/", 1)[1] for url in sqs("ListQueues", QueueNamePrefix="b")["QueueUrls"]]

    assert names == ["b1", "b2", "b3.fifo"]


def test_an_empty_list_has_no_key(sqs: Sqs) -> None:
    assert sqs("ListQueues") == {}


def test_queues_are_listed_in_pages(sqs: Sqs) -> None:
    for number in range(5):
        sqs.create(f"q{number}")

    first = sqs("ListQueues", MaxResults=2)
    second = sqs("ListQueues", MaxResults=2, NextToken=first["NextToken"])
    third = sqs("ListQueues", MaxResults=2, NextToken=second["NextToken"])

    urls = first["QueueUrls"] + second["QueueUrls"] + third["QueueUrls"]
    assert [url[-2:] for url in urls] == ["q0", "q1", "q2", "q3", "q4"]
    assert "NextToken" not in third


def test_a_page_holds_up_to_a_thousand(sqs: Sqs) -> None:
    assert sqs.refusal("ListQueues", MaxResults=0).code == "InvalidParameterValue"
    assert sqs.refusal("ListQueues", MaxResults=1001).code == "InvalidParameterValue"
    assert sqs.refusal("ListQueues", MaxResults=1, NextToken="?").code == "InvalidParameterValue"


def test_a_deleted_queue_is_gone_with_its_messages(sqs: Sqs) -> None:
    sqs.create("q")
    sqs.send()

    assert sqs("DeleteQueue", QueueUrl="q") == {}

    assert sqs.refusal("ReceiveMessage", QueueUrl="q").shape == "QueueDoesNotExist"
    clock.advance(sqs.db, 60)
    sqs.create("q")
    assert sqs.receive() == []


def test_a_deleted_queue_can_be_made_again_after_a_minute(sqs: Sqs) -> None:
    sqs.create("q")
    sqs("DeleteQueue", QueueUrl="q")
    clock.advance(sqs.db, 58)

    refusal = sqs.refusal("CreateQueue", QueueName="q")

    assert refusal.code == "AWS.SimpleQueueService.QueueDeletedRecently"
    clock.advance(sqs.db, 3)
    sqs.create("q")


def test_the_rules_of_sixty_seconds_can_be_switched_off(sqs: Sqs) -> None:
    sqs.db.execute("select pgqs.configure('recreate_wait', '0'), pgqs.configure('purge_wait', '0')")
    sqs.create("q")

    sqs("DeleteQueue", QueueUrl="q")
    sqs.create("q")
    sqs("PurgeQueue", QueueUrl="q")
    sqs("PurgeQueue", QueueUrl="q")


def test_a_purged_queue_is_empty(sqs: Sqs) -> None:
    sqs.create("q")
    sqs.send()
    sqs.send()
    held = sqs.receive(count=1)[0]

    assert sqs("PurgeQueue", QueueUrl="q") == {}

    assert sqs.counts() == (0, 0, 0)
    sqs.delete(held)
    sqs.send(body="new")
    assert sqs.bodies() == ["new"]


def test_a_queue_is_purged_once_a_minute(sqs: Sqs) -> None:
    sqs.create("q")
    sqs("PurgeQueue", QueueUrl="q")

    refusal = sqs.refusal("PurgeQueue", QueueUrl="q")

    assert refusal.code == "AWS.SimpleQueueService.PurgeQueueInProgress"
    assert refusal.status == 403
    assert refusal.message == "Only one PurgeQueue operation on q is allowed every 60 seconds."
    clock.advance(sqs.db, 61)
    sqs("PurgeQueue", QueueUrl="q")


def test_tags_are_kept_and_removed(sqs: Sqs) -> None:
    sqs("CreateQueue", QueueName="q", tags={"a": "1"})

    sqs("TagQueue", QueueUrl="q", Tags={"b": "2", "c": ""})
    assert sqs("ListQueueTags", QueueUrl="q") == {"Tags": {"a": "1", "b": "2", "c": ""}}
    sqs("UntagQueue", QueueUrl="q", TagKeys=["a", "b", "c", "d"])

    assert sqs("ListQueueTags", QueueUrl="q") == {}


def test_a_queue_has_fifty_tags_at_most(sqs: Sqs) -> None:
    sqs("CreateQueue", QueueName="q", tags={f"k{number}": "" for number in range(50)})

    too_many = sqs.refusal("TagQueue", QueueUrl="q", Tags={"one": "more"})

    assert too_many.code == "InvalidParameterValue"
    assert len(sqs("ListQueueTags", QueueUrl="q")["Tags"]) == 50
    for tags in ({"": "x"}, {"k" * 129: "x"}, {"k0": "v" * 257}):
        assert sqs.refusal("TagQueue", QueueUrl="q", Tags=tags).code == "InvalidParameterValue"


def test_an_unknown_action_is_refused(sqs: Sqs) -> None:
    assert sqs.refusal("DoSomething").code == "InvalidAction"
