"""Real traffic for some seconds: slow and rolled-back publishers against several consumers.

Counted at the end: messages lost, messages that nobody published, messages delivered twice.
"""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING, Any

import pytest

from tests.concurrency.sessions import (
    QUEUES,
    READER,
    Background,
    Traffic,
    ack,
    call,
    claim,
    create,
    drain,
    publish,
    publish_many,
    read,
    until,
)
from tests.fixtures import clock
from tests.fixtures.maintenance import maintain

if TYPE_CHECKING:
    import psycopg

    from tests.fixtures.databases import Connect

    Session = psycopg.Connection[Any]

PUBLISHERS = 6
CONSUMERS = 3


class Mixed(Traffic):
    """Slow publishers, some of them rolled back, and quick consumers."""

    def publish(self, session: Session, seed: int) -> None:
        chance = random.Random(seed)
        while self.goes_on:
            ids = []
            for _ in range(chance.randint(1, 3)):
                ids += publish_many(session, chance.randint(1, 4))
                ids.append(publish(session, priority=chance.choice([0, 0, 5]), key=f"s{seed}"))
                time.sleep(chance.choice([0, 0, 0.002, 0.05]))
            if chance.random() < 0.2:
                session.rollback()
            else:
                session.commit()
                with self.lock:
                    self.published += ids

    def consume(self, session: Session, seed: int) -> None:
        chance = random.Random(seed)
        holder = f"consumer-{seed}"
        while self.goes_on:
            ids = claim(session, chance.choice([1, 3, 20]), holder=holder, seconds=600)
            if ids and chance.random() < 0.1:
                session.execute("select penstock.release_messages('q', %s, %s)", (ids, holder))
                continue
            done = ack(session, ids, holder=holder)
            with self.lock:
                self.delivered += done

    def read(self, session: Session, seed: int) -> None:
        chance = random.Random(seed)
        while self.goes_on:
            self.delivered += read(session, chance.choice([1, 5, 50]))


@pytest.mark.parametrize(
    ("kind", "seconds"),
    [
        pytest.param(kind, 20, marks=pytest.mark.prove, id=f"{kind}-long")
        for kind in (*QUEUES, READER)
    ]
    + [pytest.param(kind, 1.5, id=kind) for kind in (*QUEUES, READER)],
)
def test_nothing_is_lost_invented_or_delivered_twice(
    db: Session, connect: Connect, kind: str, seconds: float
) -> None:
    create(db, kind)
    call(db, "configure", "segment_bytes", "65536")
    traffic = Mixed(time.monotonic() + seconds)
    running = [
        Background(traffic.publish, connect(autocommit=False), number)
        for number in range(PUBLISHERS)
    ]
    if kind == READER:
        running.append(Background(traffic.read, connect(), 100))
    else:
        running += [
            Background(traffic.consume, connect(), 100 + number) for number in range(CONSUMERS)
        ]
    while traffic.goes_on:
        maintain(db)
        time.sleep(0.1)
    until(lambda: not any(one.running for one in running))
    for one in running:
        one.result()
    clock.advance(db, 30)
    traffic.delivered += drain(db, kind)

    assert traffic.faults == (0, 0, 0)
    assert len(set(traffic.delivered)) > 100
