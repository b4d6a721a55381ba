"""Claims messages, is stopped until its claims have ended, and then does as if they had not.

It talks SQL to the engine itself: the client would see by its own clock that it is too late.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import psycopg

from prove.actors.names import QUEUE
from prove.actors.publisher import number_of
from prove.ledger import Ledger, Step

if TYPE_CHECKING:
    import argparse
    from datetime import datetime

BATCH = 40
# A pause between two looks at the clock that was much longer than asked for: it was stopped.
TICK = 0.05
STOPPED = 0.5
ACTIONS = {
    "ack": "select penstock.ack_message(%(queue)s, %(id)s, %(token)s)",
    "nack": "select penstock.nack_message(%(queue)s, %(id)s, %(token)s, 0)",
    "release": "select penstock.release_message(%(queue)s, %(id)s, %(token)s)",
    "extend": "select penstock.extend_message_vt(%(queue)s, %(id)s, %(token)s, 1) is not null",
}


async def linger(options: argparse.Namespace, ledger: Ledger) -> None:
    await asyncio.to_thread(_linger, options, ledger)


def _linger(options: argparse.Namespace, ledger: Ledger) -> None:
    with psycopg.connect(options.dsn, autocommit=True) as db:
        for turn in itertools.count():
            token = f"lingerer-{os.getpid()}-{turn}"
            held = db.execute(
                "select message_id, payload, delivery_attempts, vt "
                "from penstock.consume_messages_batch(%s, %s, %s, %s)",
                (QUEUE, token, int(options.claim), BATCH),
            ).fetchall()
            if not held:
                time.sleep(TICK)
                continue
            for message_id, payload, attempt, _ in held:
                ledger.note(Step.DELIVERED, number_of(payload), message_id, attempt, QUEUE)
            ledger.note(Step.HOLDING, len(held))
            _await_stop()
            _await_end(db, held[0][-1])
            _act(db, held, token, ledger, turn)


def _await_stop() -> None:
    while True:
        before = time.monotonic()
        time.sleep(TICK)
        if time.monotonic() - before > STOPPED:
            return


def _await_end(db: psycopg.Connection[Any], deadline: datetime) -> None:
    # On a busy machine a pause may be long without any signal.
    while db.execute("select clock_timestamp() <= %s", (deadline,)).fetchone() == (True,):
        time.sleep(TICK)


def _act(
    db: psycopg.Connection[Any], held: list[tuple[Any, ...]], token: str, ledger: Ledger, turn: int
) -> None:
    actions = list(ACTIONS.items())
    for place, (message_id, payload, attempt, _) in enumerate(held):
        action, statement = actions[(turn + place) % len(actions)]
        given = {"queue": QUEUE, "id": message_id, "token": token}
        with suppress(psycopg.Error):
            row = db.execute(statement, given).fetchone()
            accepted = row is not None and row[0]
            step = Step.STALE_ACCEPTED if accepted else Step.STALE_REFUSED
            ledger.note(step, number_of(payload), message_id, attempt, action)
