"""Ask and wait for the answer: a message out, one message back."""

import asyncio
from datetime import timedelta
from typing import Any

import penstock

PRICES = {"kettle": "24.90", "cup": "6.50"}


async def main() -> None:
    mq = penstock.connect()
    worker = penstock.Worker(mq)

    @worker.handler("prices")
    async def price(message: penstock.Message[Any]) -> None:
        await message.reply({"price": PRICES[message.payload["article"]]})

    async with mq:
        await mq.create_queue("prices")
        running = asyncio.create_task(worker.run())
        answer = await mq.request("prices", {"article": "cup"}, timeout=timedelta(seconds=10))
        print("a cup costs", answer.payload["price"])
        await worker.stop()
        await running


if __name__ == "__main__":
    asyncio.run(main())
