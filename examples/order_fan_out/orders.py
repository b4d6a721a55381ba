"""One order, two queues: billing and the warehouse each get every message of the topic."""

import asyncio
from dataclasses import dataclass

import penstock


@dataclass(frozen=True)
class Order:
    id: int
    article: str


async def main() -> None:
    done: asyncio.Queue[str] = asyncio.Queue()
    mq = penstock.connect()
    worker = penstock.Worker(mq)

    @worker.handler("billing", concurrency=10, payload_type=Order)
    async def bill(message: penstock.Message[Order]) -> None:
        done.put_nowait(f"billed order {message.payload.id}")

    @worker.handler("warehouse", payload_type=Order)
    async def pack(message: penstock.Message[Order]) -> None:
        done.put_nowait(f"packed a {message.payload.article}")

    async with mq:
        await mq.create_queue("billing", topic="orders")
        await mq.create_queue("warehouse", topic="orders")
        await mq.publish("orders", Order(7, "kettle"))
        running = asyncio.create_task(worker.run())
        for line in sorted([await done.get(), await done.get()]):
            print(line)
        await worker.stop()
        await running


if __name__ == "__main__":
    asyncio.run(main())
