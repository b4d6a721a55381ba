"""Workers that some messages kill, with whatever else they hold and no chance to say goodbye.

The actor itself is their supervisor, and starts another for each that dies.
"""

from __future__ import annotations

import asyncio
import ctypes
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

# linux/prctl.h: the signal that a process gets when its parent dies.
_PR_SET_PDEATHSIG = 1


def supervise(options: argparse.Namespace, ledger: Ledger) -> None:
    while True:
        child = os.fork()
        if child == 0:
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            asyncio.run(_fall(options, ledger))
            os._exit(0)
        os.waitpid(child, 0)
        ledger.note(Step.FAULT, 1, place="worker_died")


async def _fall(options: argparse.Namespace, ledger: Ledger) -> None:
    worker = penstock.Worker(penstock.connect(options.dsn))
    claim = timedelta(seconds=options.claim)

    @worker.handler(QUEUE, claim_for=claim)
    async def handle(message: penstock.Message[Any]) -> None:
        number = number_of(message.payload)
        ledger.note(Step.DELIVERED, number, message.id, message.attempt, QUEUE)
        if message.payload.get("poison"):
            os.kill(os.getpid(), signal.SIGKILL)

    await worker.run()
