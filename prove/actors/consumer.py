"""Consumes one message after the other, and notes when its ack is stored."""

from __future__ import annotations

import asyncio
import signal
from datetime import timedelta
from typing import TYPE_CHECKING

import penstock
from penstock import errors
from prove.actors.names import QUEUE
from prove.actors.publisher import PATIENCE, number_of
from prove.ledger import Ledger, Step

if TYPE_CHECKING:
    import argparse


async def consume(options: argparse.Namespace, ledger: Ledger) -> None:
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    answer = timedelta(seconds=options.answer)
    claim = timedelta(seconds=options.claim)
    try:
        async with penstock.connect(options.dsn, retry_for=PATIENCE, call_timeout=answer) as mq:
            async for message in mq.consume(QUEUE, claim_for=claim, batch_size=20):
                number = number_of(message.payload)
                ledger.note(Step.DELIVERED, number, message.id, message.attempt, QUEUE)
                await asyncio.sleep(options.pause)
                try:
                    held = await message.ack()
                except errors.PenstockError as error:
                    code = getattr(error, "code", None) or type(error).__name__
                    ledger.note(Step.REFUSED, number, message.id, place=f"ack:{code}")
                else:
                    if held:
                        ledger.note(Step.DONE, number, message.id, message.attempt, QUEUE)
    except asyncio.CancelledError:
        return
