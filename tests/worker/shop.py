"""The worker that the tests of `penstock worker` run: `tests.worker.shop:worker`."""

from __future__ import annotations

import asyncio
import os
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import penstock

worker = penstock.Worker(penstock.connect(), name="shop", grace=timedelta(seconds=20))


def _note(word: str) -> None:
    with Path(os.environ["SHOP_NOTES"]).open("a", encoding="utf-8") as notes:
        notes.write(f"{word}\n")


@worker.handler("billing", concurrency=2, prefetch=0)
async def bill(message: Any) -> None:
    """Does what the payload says, until the test says that it may go on."""
    _note(f"began {message.id}")
    if message.payload == "wait":
        while not Path(os.environ["SHOP_NOTES"]).with_name("go").exists():  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    elif message.payload == "hang":
        await asyncio.Event().wait()
    elif message.payload == "fail":
        raise LookupError("nothing of the sort")
    _note(f"ended {message.id}")


@worker.handler("threads", concurrency=1, prefetch=0)
def stuck(message: Any) -> None:
    """A thread that nobody can stop."""
    _note(f"began {message.id}")
    time.sleep(600)


@worker.handler("processes", concurrency=2, prefetch=0, run_in="process")
def in_process(message: Any) -> None:
    """Works in another process, until the test says that it may go on."""
    _note(f"began {message.id} in {os.getpid()}")
    while not Path(os.environ["SHOP_NOTES"]).with_name("go").exists():
        time.sleep(0.01)
    _note(f"ended {message.id}")


impatient = penstock.Worker(penstock.connect(), name="impatient")


@impatient.handler(
    "nowhere", max_queue_retries=1, queue_error_retry_interval=timedelta(milliseconds=10)
)
async def never(message: Any) -> None:
    """Its queue does not exist."""


def made() -> penstock.Worker:
    """A worker that is made when it is asked for."""
    return worker


something = 7
