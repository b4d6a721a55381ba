"""The threads of the demo: one that publishes the stream, and the consumers of each queue."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

from psycopg import Connection

from penstock.cli.demo.ledger import Ledger
from penstock.cli.demo.stage import Stage
from penstock.cli.demo.story import DELAY, PARTS, PRIORITY, Beat, Fate, Order, Part, Script
from penstock.client import calls
from penstock.models import ClaimedMessage
from penstock.postgres.call import run

Connect = Callable[[], Connection[Any]]

LEASE = timedelta(seconds=30)
IDLE = 0.02


class HandlerFailed(Exception):
    """What a handler of the demo raises; an application's own errors would stand here."""


class Troupe:
    """All threads of one demo; the first error of any ends them all and is kept."""

    def __init__(self, script: Script, stage: Stage, ledger: Ledger, connect: Connect) -> None:
        self._script, self._stage, self._ledger, self._connect = script, stage, ledger, connect
        self._leaving = threading.Event()
        self.everything_published = threading.Event()
        self.problem: Exception | None = None
        self._threads = [
            threading.Thread(target=self._play, args=(role,), daemon=True) for role in self._roles()
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def leave(self) -> None:
        """Ask every thread to finish what it has in hand, and wait for it."""
        self._leaving.set()
        for thread in self._threads:
            thread.join(timeout=10)

    def _roles(self) -> list[Callable[[Connection[Any]], None]]:
        consumers = [self._consumer(part) for part in PARTS for _ in range(part.consumers)]
        return [*consumers, self._produce]

    def _play(self, role: Callable[[Connection[Any]], None]) -> None:
        try:
            with self._connect() as connection:
                role(connection)
        except Exception as problem:  # noqa: BLE001 - shown by the main thread
            self.problem = self.problem or problem
            self._leaving.set()

    def _produce(self, connection: Connection[Any]) -> None:
        start = time.monotonic()
        for beat in self._script.beats:
            pause = start + beat.at.total_seconds() - time.monotonic()
            if self._leaving.wait(max(0.0, pause)):
                return
            self._publish(connection, beat)
        self.everything_published.set()

    def _publish(self, connection: Connection[Any], beat: Beat) -> None:
        fate = beat.orders[0].fate
        self._ledger.publishing(order.number for order in beat.orders)
        run(
            connection,
            calls.publish_many(
                self._stage.topic,
                [order.payload for order in beat.orders],
                keys=[order.customer for order in beat.orders],
                delays=[DELAY] if fate is Fate.DELAYED else None,
                priorities=[PRIORITY] if fate is Fate.PRIORITY else None,
            ),
        )

    def _consumer(self, part: Part) -> Callable[[Connection[Any]], None]:
        def consume(connection: Connection[Any]) -> None:
            queue, token = self._stage.queue(part), secrets.token_hex(8)
            while not self._leaving.is_set():
                batch = run(connection, calls.consume_batch(queue, token, LEASE, part.batch))
                if batch:
                    self._handle(connection, part, token, batch)
                else:
                    self._leaving.wait(IDLE)

        return consume

    def _handle(
        self, connection: Connection[Any], part: Part, token: str, batch: Sequence[ClaimedMessage]
    ) -> None:
        self._ledger.delivered(part.name, [(number(each), each.attempt) for each in batch])
        good: list[ClaimedMessage] = []
        for message in batch:
            try:
                handle(part, message)
                good.append(message)
            except HandlerFailed as failure:
                self._nack(connection, part, token, message, str(failure))
        if good:
            self._ack(connection, part, token, good)

    def _ack(
        self, connection: Connection[Any], part: Part, token: str, good: Sequence[ClaimedMessage]
    ) -> None:
        ids = [message.id for message in good]
        held = run(connection, calls.ack_many(self._stage.queue(part), ids, token))
        acked = [(number(each), each.attempt) for each in good if each.id in held]
        self._ledger.done(part.name, acked)

    def _nack(
        self,
        connection: Connection[Any],
        part: Part,
        token: str,
        message: ClaimedMessage,
        error: str,
    ) -> None:
        queue = self._stage.queue(part)
        call = calls.nack(queue, message.id, token, delay=part.retry_delay, error=error)
        if run(connection, call) is not None:
            self._ledger.failed(part.name, number(message), message.attempt, error)


def number(message: ClaimedMessage) -> int:
    assert isinstance(message.payload, dict)
    found = message.payload["order"]
    assert isinstance(found, int)
    return found


def handle(part: Part, message: ClaimedMessage) -> None:
    """An order's treatment: a moment of pretended work, and the failures of a real world."""
    time.sleep(part.work.total_seconds())
    assert isinstance(message.payload, dict)
    amount = message.payload["amount"]
    if part.needs_a_number and not isinstance(amount, int):
        raise HandlerFailed(f"amount is {amount!r}, not a number")
    if message.attempt == 1 and part.stumbles(number(message)):
        raise HandlerFailed("the service behind it is busy")


def expected_failures(part: Part, orders: Sequence[Order]) -> int:
    """How many handlers will fail in this queue, by the script alone."""
    attempts = part.settings["max_delivery_attempts"]
    return sum(
        attempts
        if part.needs_a_number and order.fate is Fate.POISONED
        else int(part.stumbles(order.number))
        for order in orders
    )
