"""Publishes numbers until told to stop, noting what becomes of each.

Lane 0 publishes one message after the other, with a key; every other lane as many a call as told.
"""

from __future__ import annotations

import asyncio
import itertools
import secrets
import signal
import time
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import psycopg

import penstock
from penstock import errors
from prove.actors.names import KEYED, TOPIC
from prove.ledger import NOWHERE, Ledger, Step

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

PATIENCE = timedelta(minutes=5)
# The numbers of a process and of a lane in it.
PROCESS = 10_000_000
LANE = 500_000
KEYS = 8


async def publish(options: argparse.Namespace, ledger: Ledger) -> None:
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    async with penstock.connect(
        options.dsn,
        retry_for=PATIENCE,
        call_timeout=timedelta(seconds=options.answer),
        pooler=options.pooler,
    ) as mq:
        publisher = Publisher(mq, options, ledger, stop)
        await asyncio.gather(*(publisher.lane(lane) for lane in range(options.lanes)))


class Publisher:
    def __init__(
        self,
        mq: penstock.Client,
        options: argparse.Namespace,
        ledger: Ledger,
        stop: asyncio.Event,
    ) -> None:
        self._mq = mq
        self._options = options
        self._ledger = ledger
        self._stop = stop
        self._published = 0
        self._begun = time.monotonic()
        self._padding = secrets.token_hex(options.size)

    async def lane(self, lane: int) -> None:
        numbers = itertools.count(self._options.first + lane * LANE)
        while not self._stop.is_set():
            if lane == 0:
                await self._one(next(numbers))
            elif lane == 1 and self._options.own:
                await self._in_own_transaction(next(numbers))
            else:
                await self._batch(list(itertools.islice(numbers, self._options.batch)))
            self._published += self._options.batch if lane else 1
            await asyncio.sleep(self._pause())

    def _pause(self) -> float:
        """Until the rate allows for more; after an outage there is some to catch up with."""
        if not self._options.rate:
            return float(self._options.pause)
        ahead = self._published / self._options.rate - (time.monotonic() - self._begun)
        return max(self._options.pause, ahead)

    async def _one(self, number: int) -> None:
        key = f"{self._options.first}/{number % KEYS}"
        self._ledger.note(Step.ATTEMPT, number, place=key)
        await self._told(
            [number],
            self._mq.publish(
                TOPIC,
                self._payload(number),
                key=key,
                headers=KEYED,
                dedupe_key=self._dedupe_key(number),
            ),
        )

    async def _batch(self, numbers: Sequence[int]) -> None:
        for number in numbers:
            self._ledger.note(Step.ATTEMPT, number)
        keys = [self._dedupe_key(number) for number in numbers] if self._options.dedupe else None
        payloads = [self._payload(number) for number in numbers]
        await self._told(numbers, self._mq.publish_many(TOPIC, payloads, dedupe_keys=keys))

    async def _told(self, numbers: Sequence[int], call: Any) -> None:
        sabotage = self._options.sabotage
        try:
            await call
        except errors.OutcomeUnknown:
            self._note(Step.ACKED if sabotage == "believe" else Step.UNKNOWN, numbers)
            if sabotage == "repeat":
                with suppress(errors.PenstockError):
                    await self._mq.publish_many(TOPIC, [self._payload(each) for each in numbers])
        except errors.PenstockError as error:
            self._note(
                Step.ACKED if sabotage == "believe" else Step.REFUSED,
                numbers,
                getattr(error, "code", None) or type(error).__name__,
            )
            # Whoever is refused comes again a little later.
            await asyncio.sleep(0.05)
        else:
            self._note(Step.ACKED, numbers)

    async def _in_own_transaction(self, number: int) -> None:
        """As an application does: its own transaction, and the same again if that failed."""
        self._ledger.note(Step.ATTEMPT, number)
        while not self._stop.is_set():
            try:
                async with asyncio.timeout(self._options.answer):
                    await self._transaction(number)
            except (psycopg.Error, errors.PenstockError, TimeoutError, OSError):
                self._ledger.note(Step.UNKNOWN, number)
                if not self._options.dedupe and self._options.sabotage != "repeat":
                    return
                await asyncio.sleep(0.05)
            else:
                self._ledger.note(Step.ACKED, number)
                return

    async def _transaction(self, number: int) -> None:
        conn = await psycopg.AsyncConnection.connect(self._options.dsn, connect_timeout=2)
        try:
            await self._mq.publish(
                TOPIC,
                self._payload(number),
                dedupe_key=self._dedupe_key(number),
                connection=conn,
            )
            await conn.commit()
        finally:
            await conn.close()

    def _note(self, step: Step, numbers: Sequence[int], place: str = NOWHERE) -> None:
        for number in numbers:
            self._ledger.note(step, number, place=place)

    def _payload(self, number: int) -> Any:
        if not self._options.size:
            return number
        # A piece of its own, or storage would be saved by packing it.
        start = number * 61 % self._options.size
        return {"number": number, "padding": self._padding[start : start + self._options.size]}

    def _dedupe_key(self, number: int) -> str | None:
        return f"order-{number}" if self._options.dedupe else None


def number_of(payload: Any) -> int:
    """Which message it is."""
    number: int = payload["number"] if isinstance(payload, dict) else payload
    return number
