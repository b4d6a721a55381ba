"""A worker whose handlers take a moment, and note what they were given."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import penstock
from penstock.observe.events import Event, Name, subscribe
from prove.actors.names import FIFO, QUEUE
from prove.actors.publisher import number_of
from prove.ledger import Ledger, Step

if TYPE_CHECKING:
    import argparse


async def work(options: argparse.Namespace, ledger: Ledger) -> None:
    answer = timedelta(seconds=options.answer)
    worker = penstock.Worker(
        penstock.connect(options.dsn, call_timeout=answer, pooler=options.pooler)
    )
    # Left to itself a worker looks when a claim ends; one that sleeps on is told so by its options.
    polling = timedelta(seconds=12 if options.sabotage == "oversleep" else 1)

    def extended(event: Event) -> None:
        if event.name is Name.CLAIM_EXTENDED and event.count:
            ledger.note(Step.EXTENDED, event.count)

    subscribe(extended)

    async def handle(message: penstock.Message[Any]) -> None:
        if options.sabotage == "early":
            # The classic mistake: done before it is done.
            await message.ack()
        await asyncio.sleep(options.pause)
        number = number_of(message.payload)
        ledger.note(Step.DELIVERED, number, message.id, message.attempt, message.queue)

    claim = timedelta(seconds=options.claim)
    for queue in (QUEUE, FIFO) if options.fifo else (QUEUE,):
        worker.handler(
            queue, concurrency=options.concurrency, claim_for=claim, polling_interval=polling
        )(handle)
    await worker.run()
