"""The processes of a fault programme: `python -m tests.faults.actors publish|work …`.

Each writes down what it does before and after it does it.  `--sabotage` makes an actor break one
promise on purpose: the checker must see it.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import penstock
from penstock import errors
from penstock.observe.events import Event, Name, subscribe
from tests.faults.ledger import Ledger, Step

TOPIC = "orders"
QUEUE = "billing"
# A black hole is given up after this.
ANSWER = timedelta(seconds=2)


async def publish(options: argparse.Namespace, ledger: Ledger) -> None:
    """Publish numbers until told to stop, noting what becomes of each."""
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    number = options.first
    patience = timedelta(minutes=5)
    async with penstock.connect(options.dsn, retry_for=patience, call_timeout=ANSWER) as mq:
        while not stop.is_set():
            await _publish_one(mq, number, options, ledger)
            number += 1
            await asyncio.sleep(options.pause)


async def _publish_one(
    mq: penstock.Client, number: int, options: argparse.Namespace, ledger: Ledger
) -> None:
    ledger.note(Step.ATTEMPT, number)
    key = f"order-{number}" if options.dedupe else None
    try:
        await mq.publish(TOPIC, number, dedupe_key=key)
    except errors.OutcomeUnknown:
        ledger.note(Step.ACKED if options.sabotage == "believe" else Step.UNKNOWN, number)
        if options.sabotage == "repeat":
            with suppress(errors.PenstockError):
                await mq.publish(TOPIC, number)
    except errors.PenstockError:
        ledger.note(Step.ACKED if options.sabotage == "believe" else Step.REFUSED, number)
    else:
        ledger.note(Step.ACKED, number)


async def work(options: argparse.Namespace, ledger: Ledger) -> None:
    """A worker whose handler takes a moment, and notes what it was given."""
    worker = penstock.Worker(penstock.connect(options.dsn, call_timeout=ANSWER))
    # Left to itself a worker looks when a claim ends; one that sleeps on is told so by its options.
    polling = timedelta(seconds=12 if options.sabotage == "oversleep" else 1)

    def extended(event: Event) -> None:
        if event.name is Name.CLAIM_EXTENDED and event.count:
            ledger.note(Step.EXTENDED, event.count)

    subscribe(extended)

    claim = timedelta(seconds=options.claim)

    @worker.handler(QUEUE, concurrency=10, claim_for=claim, polling_interval=polling)
    async def handle(message: penstock.Message[Any]) -> None:
        if options.sabotage == "early":
            # The classic mistake: done before it is done.
            await message.ack()
        await asyncio.sleep(options.pause)
        ledger.note(Step.DELIVERED, message.payload, message.id)

    await worker.run()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("part", choices=["publish", "work"])
    parser.add_argument("--dsn", required=True)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--pause", type=float, default=0.0)
    parser.add_argument("--claim", type=float, default=2.0, help="seconds")
    parser.add_argument("--dedupe", action="store_true")
    parser.add_argument("--sabotage", choices=["believe", "repeat", "early", "oversleep"])
    options = parser.parse_args()
    ledger = Ledger(options.folder / f"{options.part}-{options.first}-{os.getpid()}.ledger")
    asyncio.run(publish(options, ledger) if options.part == "publish" else work(options, ledger))


if __name__ == "__main__":
    main()
