"""A worker that messages kill: `python -m tests.worker.fatal <dsn>`."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from datetime import timedelta
from typing import Any

import penstock


async def main(dsn: str) -> None:
    worker = penstock.Worker(penstock.connect(dsn))

    # Longer than the clock is set forward.
    @worker.handler("billing", claim_for=timedelta(minutes=5))
    async def bill(message: penstock.Message[Any]) -> None:
        """Kill the process as soon as it holds a message of the other queue."""
        print("begun", flush=True)
        while worker.status().handlers[1].held == 0:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        os.kill(os.getpid(), signal.SIGKILL)

    @worker.handler("risky", polling_interval=timedelta(milliseconds=100))
    async def risk(message: penstock.Message[Any]) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    await worker.run()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
