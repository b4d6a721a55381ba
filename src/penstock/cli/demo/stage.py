"""The demo's throw-away topic and queues: built, taken down, swept up after a demo cut off."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import Any, Self

from psycopg import Connection

from penstock.cli.demo.story import PARTS, Part
from penstock.client import calls
from penstock.errors import UnknownTopic
from penstock.models import Ordering
from penstock.postgres.call import run

PREFIX = "penstock-demo-"

# The session that runs a demo holds this lock on its topic's name, so that another demo can tell
# a running neighbour from left-overs.
_LOCK = "select pg_try_advisory_lock(hashtextextended(%s, 0))"
_UNLOCK = "select pg_advisory_unlock(hashtextextended(%s, 0))"


@dataclass(frozen=True, slots=True)
class Stage:
    topic: str

    @classmethod
    def invent(cls) -> Self:
        return cls(f"{PREFIX}{secrets.token_hex(4)}")

    def queue(self, part: Part) -> str:
        return f"{self.topic}-{part.name}"


def build(connection: Connection[Any], stage: Stage) -> None:
    _lock(connection, stage.topic)
    run(connection, calls.create_topic(stage.topic))
    for part in PARTS:
        settings = dict(part.settings)
        ordering = Ordering(settings.pop("ordering", Ordering.STANDARD))
        run(
            connection,
            calls.create_queue(stage.queue(part), topic=stage.topic, ordering=ordering, **settings),
        )


def take_down(connection: Connection[Any], topic: str) -> None:
    try:
        run(connection, calls.delete_topic(topic))
    except UnknownTopic:
        return


def sweep(connection: Connection[Any]) -> int:
    """Take down what interrupted demos left behind, and tell how many there were."""
    swept = 0
    for topic in run(connection, calls.list_topics()):
        if topic.name.startswith(PREFIX) and _lock(connection, topic.name):
            take_down(connection, topic.name)
            connection.execute(_UNLOCK, (topic.name,))
            swept += 1
    return swept


def _lock(connection: Connection[Any], topic: str) -> bool:
    row = connection.execute(_LOCK, (topic,)).fetchone()
    return bool(row and row[0])
