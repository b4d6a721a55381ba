"""The engine's queues and SQS queues are the same queues."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import penstock

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from tests.sqs.running import Running


@pytest.fixture
async def mq(door: Running) -> AsyncIterator[penstock.Client]:
    async with penstock.connect(door.dsn) as client:
        yield client


async def test_what_boto3_sends_a_python_consumer_gets(
    door: Running, mq: penstock.Client, new_name: Callable[..., str]
) -> None:
    name, sqs = new_name(), door.boto3()
    url = sqs.create_queue(QueueName=name)["QueueUrl"]
    sqs.send_message(QueueUrl=url, MessageBody="from boto3")
    [message] = await mq.claim(name)
    assert message.payload == "from boto3"
    assert await message.ack()
    assert "Messages" not in sqs.receive_message(QueueUrl=url)
    sqs.close()


async def test_what_python_publishes_boto3_receives(
    door: Running, mq: penstock.Client, new_name: Callable[..., str]
) -> None:
    name, sqs = new_name(), door.boto3()
    await mq.create_queue(name)
    url = sqs.get_queue_url(QueueName=name)["QueueUrl"]
    await mq.publish(name, {"order": 7}, headers={"region": "eu"})
    [message] = sqs.receive_message(QueueUrl=url, MessageAttributeNames=["All"])["Messages"]
    sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
    sqs.close()
    assert message["Body"] == '{"order": 7}'
    assert message["MessageAttributes"]["region"]["StringValue"] == "eu"
    assert (await mq.queue_statistics(name)).pending_count == 0


async def test_a_topic_fans_out_to_sqs_queues(
    door: Running, mq: penstock.Client, new_name: Callable[..., str]
) -> None:
    topic, sqs = new_name("topic"), door.boto3()
    await mq.create_topic(topic)
    names = [new_name("fan"), new_name("fan")]
    for name in names:
        await mq.create_queue(name, topic=topic)
    await mq.publish(topic, "news")
    assert [_bodies(sqs, name) for name in names] == [["news"], ["news"]]
    sqs.close()


def _bodies(sqs: Any, name: str) -> list[str]:
    url = sqs.get_queue_url(QueueName=name)["QueueUrl"]
    return [each["Body"] for each in sqs.receive_message(QueueUrl=url).get("Messages", [])]
