"""A worker that some messages kill: one message at a time, and no chance to say goodbye."""

from __future__ import annotations

import os
import signal
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import penstock
from prove.actors.names import QUEUE
from prove.actors.publisher import number_of
from prove.ledger import Ledger, Step

if TYPE_CHECKING:
    import argparse


async def fall(options: argparse.Namespace, ledger: Ledger) -> None:
    worker = penstock.Worker(penstock.connect(options.dsn))
    claim = timedelta(seconds=options.claim)

    # What merely waits in a worker that dies has used an attempt as well, so nothing waits.
    @worker.handler(QUEUE, concurrency=1, batch_size=1, prefetch=0, claim_for=claim)
    async def handle(message: penstock.Message[Any]) -> None:
        number = number_of(message.payload)
        ledger.note(Step.DELIVERED, number, message.id, message.attempt, QUEUE)
        if message.payload.get("poison"):
            os.kill(os.getpid(), signal.SIGKILL)

    await worker.run()
