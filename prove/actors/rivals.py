"""Sessions of one process that claim at the same time, so that the engine cuts slices.

They talk SQL to the engine, a few messages at a time.  Each claim is a transaction that stays open
for a moment, as it does where the network is slow: the others find the claim lock taken.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import random
import signal
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import psycopg

from prove.actors.names import FIFO, QUEUE
from prove.actors.publisher import number_of
from prove.ledger import Ledger, Step

if TYPE_CHECKING:
    import argparse

    Db = psycopg.AsyncConnection[Any]

BATCHES = (1, 1, 2, 5)
HOLD_SECONDS = 0.004
IDLE_SECONDS = 0.02
# Lost connections, no place for another one, and servers that end or begin.
LOST = ("08", "53", "57")

ONE = """
    select message_id, payload, delivery_attempts
    from penstock.consume_message(%(queue)s, %(token)s, %(seconds)s)
"""
MANY = """
    select message_id, payload, delivery_attempts
    from penstock.consume_messages_batch(%(queue)s, %(token)s, %(seconds)s, %(batch)s)
"""
ACK = "select * from penstock.ack_messages(%(queue)s, %(ids)s, %(token)s)"


async def rival(options: argparse.Namespace, ledger: Ledger) -> None:
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    queues = (QUEUE, FIFO) if options.fifo else (QUEUE,)
    sessions = [
        Rival(f"rival-{os.getpid()}-{place}", queue, options, ledger)
        for place, queue in zip(range(options.concurrency), itertools.cycle(queues), strict=False)
    ]
    with suppress(asyncio.CancelledError):
        await asyncio.gather(*(session.run() for session in sessions))


class Rival:
    """One session, and another after it when it is lost."""

    def __init__(self, token: str, queue: str, options: argparse.Namespace, ledger: Ledger) -> None:
        self._token = token
        self._queue = queue
        self._options = options
        self._ledger = ledger
        self._luck = random.Random(token)

    async def run(self) -> None:
        while True:
            try:
                await self._connected()
            except psycopg.Error as error:
                if error.sqlstate and not error.sqlstate.startswith(LOST):
                    self._ledger.note(Step.TROUBLE, 1, place=error.sqlstate)
            except (TimeoutError, OSError):
                pass
            await asyncio.sleep(IDLE_SECONDS)

    async def _connected(self) -> None:
        db = await psycopg.AsyncConnection.connect(
            self._options.dsn, autocommit=True, connect_timeout=2
        )
        try:
            while True:
                async with asyncio.timeout(self._options.answer):
                    held = await self._claim(db)
                for message_id, payload, attempt in held:
                    number = number_of(payload)
                    self._ledger.note(Step.DELIVERED, number, message_id, attempt, self._queue)
                await asyncio.sleep(self._options.pause if held else IDLE_SECONDS)
                async with asyncio.timeout(self._options.answer):
                    await self._ack(db, held)
        finally:
            await db.close()

    async def _claim(self, db: Db) -> list[tuple[Any, ...]]:
        batch = self._luck.choice(BATCHES)
        given = {
            "queue": self._queue,
            "token": self._token,
            "seconds": int(self._options.claim),
            "batch": batch,
        }
        async with db.transaction():
            found = await db.execute(ONE if batch == 1 else MANY, given)
            held = await found.fetchall()
            if held:
                await asyncio.sleep(self._luck.uniform(0, HOLD_SECONDS))
        return held

    async def _ack(self, db: Db, held: list[tuple[Any, ...]]) -> None:
        if not held:
            return
        ids = [message_id for message_id, *_ in held]
        given = {"queue": self._queue, "ids": ids, "token": self._token}
        found = await db.execute(ACK, given)
        done = {message_id for (message_id,) in await found.fetchall()}
        for message_id, payload, attempt in held:
            if message_id in done:
                number = number_of(payload)
                self._ledger.note(Step.DONE, number, message_id, attempt, self._queue)
