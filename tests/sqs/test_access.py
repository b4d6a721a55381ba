"""Roles, queues and policies: who may do what."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
from botocore.exceptions import ClientError

from tests.sqs.running import ADMIN, CONSUMER, NARROW, PUBLISHER, STRANGER, Running

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from penstock.sqs.auth.access_keys import AccessKey


@pytest.fixture
def as_key(door: Running) -> Iterator[Callable[[AccessKey], Any]]:
    """Clients that sign with a key."""
    made: list[Any] = []

    def client(key: AccessKey) -> Any:
        made.append(door.boto3(key))
        return made[-1]

    yield client
    for each in made:
        each.close()


@pytest.fixture
def url(as_key: Callable[[AccessKey], Any], new_name: Callable[..., str]) -> str:
    """A queue of the admin's account."""
    found: str = as_key(ADMIN).create_queue(QueueName=new_name())["QueueUrl"]
    return found


def _refused(call: Callable[..., Any], **given: Any) -> str:
    with pytest.raises(ClientError) as caught:
        call(**given)
    answer = caught.value.response
    assert answer["ResponseMetadata"]["HTTPStatusCode"] == 403
    code: str = answer["Error"]["Code"]
    return code


def _allow(**more: Any) -> str:
    statement = {"Effect": "Allow", "Principal": "*", "Action": "sqs:*", "Resource": "*"}
    return json.dumps({"Version": "2012-10-17", "Statement": [statement | more]})


def test_a_publisher_sends_and_does_not_receive(as_key: Any, url: str) -> None:
    sqs = as_key(PUBLISHER)
    sqs.send_message(QueueUrl=url, MessageBody="x")
    assert _refused(sqs.receive_message, QueueUrl=url) == "AccessDenied"
    assert _refused(sqs.delete_queue, QueueUrl=url) == "AccessDenied"
    assert _refused(sqs.create_queue, QueueName="mine") == "AccessDenied"


def test_a_consumer_receives_and_does_not_send(as_key: Any, url: str) -> None:
    as_key(ADMIN).send_message(QueueUrl=url, MessageBody="x")
    sqs = as_key(CONSUMER)
    [message] = sqs.receive_message(QueueUrl=url)["Messages"]
    sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
    assert _refused(sqs.send_message, QueueUrl=url, MessageBody="y") == "AccessDenied"
    assert _refused(sqs.purge_queue, QueueUrl=url) == "AccessDenied"


def test_a_key_for_some_queues_reaches_no_others(
    as_key: Any, url: str, new_name: Callable[..., str]
) -> None:
    sqs = as_key(NARROW)
    own = sqs.create_queue(QueueName=new_name("orders-"))["QueueUrl"]
    sqs.send_message(QueueUrl=own, MessageBody="x")
    assert _refused(sqs.send_message, QueueUrl=url, MessageBody="x") == "AccessDenied"
    assert _refused(sqs.create_queue, QueueName=new_name("other")) == "AccessDenied"
    assert all("/orders-" in each for each in sqs.list_queues()["QueueUrls"])


def test_a_stranger_reaches_nothing_without_a_policy(as_key: Any, url: str) -> None:
    sqs = as_key(STRANGER)
    assert _refused(sqs.send_message, QueueUrl=url, MessageBody="x") == "AccessDenied"
    # Whether a foreign queue exists is nobody's business.
    assert _refused(sqs.send_message, QueueUrl=f"{url}-not", MessageBody="x") == "AccessDenied"


def test_accounts_have_queues_of_their_own(as_key: Any, new_name: Callable[..., str]) -> None:
    name = new_name()
    mine = as_key(ADMIN).create_queue(QueueName=name)["QueueUrl"]
    theirs = as_key(STRANGER).create_queue(QueueName=name)["QueueUrl"]
    as_key(STRANGER).send_message(QueueUrl=theirs, MessageBody="theirs")
    assert mine != theirs
    assert "Messages" not in as_key(ADMIN).receive_message(QueueUrl=mine)
    assert as_key(STRANGER).list_queues(QueueNamePrefix=name)["QueueUrls"] == [theirs]


def test_a_permission_lets_another_account_in(as_key: Any, url: str) -> None:
    owner, stranger = as_key(ADMIN), as_key(STRANGER)
    owner.add_permission(
        QueueUrl=url, Label="in", AWSAccountIds=[STRANGER.account], Actions=["SendMessage"]
    )
    stranger.send_message(QueueUrl=url, MessageBody="x")
    stranger.send_message_batch(QueueUrl=url, Entries=[{"Id": "a", "MessageBody": "y"}])
    assert _refused(stranger.receive_message, QueueUrl=url) == "AccessDenied"
    owner.remove_permission(QueueUrl=url, Label="in")
    assert _refused(stranger.send_message, QueueUrl=url, MessageBody="x") == "AccessDenied"


def test_no_policy_gives_away_what_is_the_owners(as_key: Any, url: str) -> None:
    as_key(ADMIN).set_queue_attributes(QueueUrl=url, Attributes={"Policy": _allow()})
    stranger = as_key(STRANGER)
    stranger.receive_message(QueueUrl=url)
    assert _refused(stranger.delete_queue, QueueUrl=url) == "AccessDenied"
    given = {"QueueUrl": url, "Attributes": {"DelaySeconds": "1"}}
    assert _refused(stranger.set_queue_attributes, **given) == "AccessDenied"
    assert _refused(stranger.tag_queue, QueueUrl=url, Tags={"a": "b"}) == "AccessDenied"


def test_a_deny_holds_for_the_owner_too_but_can_be_mended(as_key: Any, url: str) -> None:
    owner = as_key(ADMIN)
    deny = _allow(Effect="Deny", Action="sqs:SendMessage")
    owner.set_queue_attributes(QueueUrl=url, Attributes={"Policy": deny})
    assert _refused(owner.send_message, QueueUrl=url, MessageBody="x") == "AccessDenied"
    owner.set_queue_attributes(QueueUrl=url, Attributes={"Policy": ""})
    owner.send_message(QueueUrl=url, MessageBody="x")


def test_conditions_are_asked_with_the_requests_facts(as_key: Any, url: str) -> None:
    owner, stranger = as_key(ADMIN), as_key(STRANGER)
    here = _allow(Condition={"IpAddress": {"aws:SourceIp": "127.0.0.0/8"}})
    owner.set_queue_attributes(QueueUrl=url, Attributes={"Policy": here})
    stranger.send_message(QueueUrl=url, MessageBody="x")
    only_tls = _allow(Condition={"Bool": {"aws:SecureTransport": "true"}})
    owner.set_queue_attributes(QueueUrl=url, Attributes={"Policy": only_tls})
    assert _refused(stranger.send_message, QueueUrl=url, MessageBody="x") == "AccessDenied"


def test_a_policy_gives_a_key_what_its_role_does_not(as_key: Any, url: str) -> None:
    by_name = _allow(Principal={"AWS": PUBLISHER.arn}, Action="sqs:ReceiveMessage")
    as_key(ADMIN).set_queue_attributes(QueueUrl=url, Attributes={"Policy": by_name})
    assert "Messages" not in as_key(PUBLISHER).receive_message(QueueUrl=url)


@pytest.mark.parametrize(
    "form",
    [
        "{0}/{1}/{3}#/{2}/{3}",
        "{0}/{1}/{3}%23/{2}/{3}",
        "{0}/{1}/{3}%2f{2}%2f{3}",
        "{0}/{1}/{2}%2fus-east-1%2f{3}",
        "{0}#/{2}/{3}",
    ],
)
def test_no_address_means_one_queue_to_the_gate_and_another_behind_it(
    as_key: Any, door: Running, new_name: Callable[..., str], form: str
) -> None:
    name = new_name()
    owner, stranger = as_key(ADMIN), as_key(STRANGER)
    url = owner.create_queue(QueueName=name)["QueueUrl"]
    owner.send_message(QueueUrl=url, MessageBody="x")
    stranger.create_queue(QueueName=name)
    address = form.format(door.url, STRANGER.account, ADMIN.account, name)
    for act in (
        lambda: stranger.tag_queue(QueueUrl=address, Tags={"mine": "now"}),
        lambda: stranger.purge_queue(QueueUrl=address),
        lambda: stranger.set_queue_attributes(QueueUrl=address, Attributes={"Policy": _allow()}),
        lambda: stranger.delete_queue(QueueUrl=address),
    ):
        # On a queue of his own, or on none.
        with suppress(ClientError):
            act()
    assert "Tags" not in owner.list_queue_tags(QueueUrl=url)
    found = owner.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
    assert found["ApproximateNumberOfMessages"] == "1"
    assert "Policy" not in found


def _arn(key: AccessKey, name: str) -> str:
    return f"arn:aws:sqs:us-east-1:{key.account}:{name}"


def _redrive(key: AccessKey, name: str) -> dict[str, str]:
    policy = {"deadLetterTargetArn": _arn(key, name), "maxReceiveCount": "1"}
    return {"RedrivePolicy": json.dumps(policy)}


def test_no_dead_letters_and_no_moved_messages_reach_a_stranger(
    as_key: Any, new_name: Callable[..., str]
) -> None:
    name, dead = new_name(), new_name("dead")
    owner, stranger = as_key(ADMIN), as_key(STRANGER)
    owner.create_queue(QueueName=name)
    with pytest.raises(ClientError, match="same account"):
        stranger.create_queue(QueueName=name, Attributes=_redrive(ADMIN, name))
    stranger.create_queue(QueueName=dead)
    stranger.create_queue(QueueName=name, Attributes=_redrive(STRANGER, dead))
    given = {"SourceArn": _arn(STRANGER, dead), "DestinationArn": _arn(ADMIN, name)}
    assert _refused(stranger.start_message_move_task, **given) == "AccessDenied"


def test_a_task_is_cancelled_by_those_who_may_use_its_queue(
    as_key: Any, new_name: Callable[..., str]
) -> None:
    name, dead = new_name(), new_name("dead")
    owner = as_key(ADMIN)
    dead_url = owner.create_queue(QueueName=dead)["QueueUrl"]
    owner.create_queue(QueueName=name, Attributes=_redrive(ADMIN, dead))
    entries = [{"Id": str(number), "MessageBody": "x"} for number in range(10)]
    owner.send_message_batch(QueueUrl=dead_url, Entries=entries)
    given = {"SourceArn": _arn(ADMIN, dead), "MaxNumberOfMessagesPerSecond": 1}
    handle = owner.start_message_move_task(**given, DestinationArn=_arn(ADMIN, name))["TaskHandle"]
    for key in (STRANGER, NARROW):
        stop = as_key(key).cancel_message_move_task
        assert _refused(stop, TaskHandle=handle) == "AccessDenied"
    owner.cancel_message_move_task(TaskHandle=handle)


def test_a_key_knows_who_it_is(door: Running) -> None:
    import boto3

    sts = boto3.client(
        "sts",
        endpoint_url=door.url,
        region_name="us-east-1",
        aws_access_key_id=STRANGER.access_key,
        aws_secret_access_key=STRANGER.secret,
    )
    found = sts.get_caller_identity()
    sts.close()
    assert (found["Account"], found["Arn"]) == (STRANGER.account, STRANGER.arn)


def test_the_region_comes_from_the_signature(door: Running, new_name: Callable[..., str]) -> None:
    name = new_name()
    west = door.boto3(region_name="eu-west-1")
    url = west.create_queue(QueueName=name)["QueueUrl"]
    arn = west.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]
    east = door.boto3()
    assert arn["QueueArn"] == f"arn:aws:sqs:eu-west-1:000000000000:{name}"
    with pytest.raises(east.exceptions.QueueDoesNotExist):
        east.get_queue_url(QueueName=name)
    for client in (west, east):
        client.close()
