"""A report every night: published by the clock, once however many workers run."""

import asyncio
from typing import Any

import penstock


async def main() -> None:
    made = asyncio.Event()
    mq = penstock.connect()
    worker = penstock.Worker(mq)
    # "latest": a night on which nobody ran is made up for at the next start.
    worker.schedule("0 2 * * *", topic="reports", payload={"report": "sales"}, missed="latest")

    @worker.handler("reports")
    async def report(message: penstock.Message[Any]) -> None:
        print("made the report of", message.payload["report"])
        made.set()

    async with mq:
        await mq.create_queue("reports")
        running = asyncio.create_task(worker.run())
        await made.wait()
        await worker.stop()
        await running


if __name__ == "__main__":
    asyncio.run(main())
