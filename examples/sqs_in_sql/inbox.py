"""One queue, two doors: what SQS sends the client claims, and the other way round."""

import asyncio
import json
from typing import Any

import penstock


async def main() -> None:
    async with penstock.connect() as mq:

        async def sqs(action: str, **request: Any) -> Any:
            async with mq.transaction() as conn:
                asked = "select pgqs.invoke(%s, %s::text::jsonb)"
                cursor = await conn.execute(asked, (action, json.dumps(request)))
                (answer,) = await cursor.fetchone()
                return answer

        await sqs("CreateQueue", QueueName="inbox")
        await sqs("SendMessage", QueueUrl="inbox", MessageBody="hello from SQS")
        for message in await mq.claim("inbox"):
            print("claimed:", message.payload)
            await message.ack()

        await mq.publish("inbox", "hello from Python", headers={"region": "eu"})
        answer = await sqs("ReceiveMessage", QueueUrl="inbox", MessageAttributeNames=["All"])
        for received in answer["Messages"]:
            region = received["MessageAttributes"]["region"]["StringValue"]
            print("received:", received["Body"], f"(region {region})")
            handle = received["ReceiptHandle"]
            await sqs("DeleteMessage", QueueUrl="inbox", ReceiptHandle=handle)


if __name__ == "__main__":
    asyncio.run(main())
