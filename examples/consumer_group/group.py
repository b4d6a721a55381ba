"""A consumer group: members share a queue, and a filter says who takes what."""

import asyncio
from typing import Any

import penstock


async def main() -> None:
    shipped: asyncio.Queue[str] = asyncio.Queue()
    mq = penstock.connect()
    worker = penstock.Worker(mq)
    group = worker.add_group(penstock.Group("shipping"), concurrency=2)

    @group.member("europe", filter=lambda message: message.payload["to"] == "eu")
    async def europe(message: penstock.Message[Any]) -> None:
        shipped.put_nowait(f"europe ships parcel {message.payload['parcel']}")

    @group.member("overseas", filter=lambda message: message.payload["to"] != "eu")
    async def overseas(message: penstock.Message[Any]) -> None:
        shipped.put_nowait(f"overseas ships parcel {message.payload['parcel']}")

    async with mq:
        await mq.create_queue("shipping")
        await mq.publish_many("shipping", [{"parcel": 1, "to": "eu"}, {"parcel": 2, "to": "jp"}])
        running = asyncio.create_task(worker.run())
        for line in sorted([await shipped.get(), await shipped.get()]):
            print(line)
        await worker.stop()
        await running


if __name__ == "__main__":
    asyncio.run(main())
