"""PGQ, the extension: a batch is what lies between two ticks."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

import psycopg

from bench.contestants import Claim
from bench.peers.sessions import Connections, connect, rows

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bench.model import Case
    from bench.payloads import Payload
    from bench.server import Server

QUEUE = "orders"
CREATE_QUEUE = "select pgq.create_queue(%s)"
REGISTER = "select pgq.register_consumer(%s, %s)"
#: A tick for every step of the bench, however few events it brought.
TICK_ALWAYS = "select pgq.set_queue_config(%s, 'ticker_max_count', '1')"
TICK = "select pgq.ticker(%s)"
PUBLISH_ONE = "select pgq.insert_event(%s, 'order', %s)"
PUBLISH_BATCH = "select count(pgq.insert_event(%s, 'order', data)) from unnest(%s::text[]) as data"
NEXT_BATCH = "select pgq.next_batch(%s, %s)"
EVENTS = "select ev_data from pgq.get_batch_events(%s::bigint)"
FINISH = "select pgq.finish_batch(%s::bigint)"
AVAILABLE = "select 1 from pg_available_extensions where name = 'pgq'"


def consumer(queue: int) -> str:
    return f"consumer-{queue}"


class Session:
    """Publisher, consumer and ticker, each with a backend of its own; a queue is a consumer."""

    def __init__(self, dsn: str, queues: int) -> None:
        self._connections = Connections.open(dsn, durable_claims=False)
        self._ticker = connect(dsn, durable=False)
        self._ticker.execute(CREATE_QUEUE, (QUEUE,))
        self._ticker.execute(TICK_ALWAYS, (QUEUE,))
        for queue in range(queues):
            self._ticker.execute(REGISTER, (QUEUE, consumer(queue)))

    def publish_one(self, payload: Payload) -> None:
        rows(self._connections.publish, PUBLISH_ONE, (QUEUE, payload.text))

    def publish_batch(self, payloads: Sequence[Payload]) -> None:
        texts = [payload.text for payload in payloads]
        rows(self._connections.publish, PUBLISH_BATCH, (QUEUE, texts))

    def settle(self) -> None:
        rows(self._ticker, TICK, (QUEUE,))

    def preload(self, payloads: Sequence[Payload], batch: int) -> None:
        for first in range(0, len(payloads), batch):
            texts = [payload.text for payload in payloads[first : first + batch]]
            rows(self._ticker, PUBLISH_BATCH, (QUEUE, texts))
            self.settle()

    def claim(self, size: int, queue: int = 0) -> Claim:  # noqa: ARG002
        batch = rows(self._connections.claim, NEXT_BATCH, (QUEUE, consumer(queue)))[0][0]
        if batch is None:
            return Claim([], None)
        events = rows(self._connections.claim, EVENTS, (batch,))
        return Claim([json.loads(row[0])["n"] for row in events], batch)

    def ack(self, claim: Claim) -> None:
        rows(self._connections.ack, FINISH, (claim.handle,))

    def housekeep(self) -> None:
        """Nothing: tables rotate every two hours, longer than any scenario."""

    def pids(self) -> Mapping[str, int]:
        return {**self._connections.pids(), "tick": self._ticker.info.backend_pid}

    def close(self) -> None:
        self._connections.close()
        self._ticker.close()


@dataclass(frozen=True, slots=True)
class Pgq:
    name: str = "pgq"

    def unavailable(self, server: Server) -> str | None:
        with server.admin() as connection:
            if connection.execute(AVAILABLE).fetchone():
                return None
        return "the server has no pgq extension (Debian: postgresql-15-pgq3, --pg system)"

    def refuses(self, case: Case) -> str | None:
        return "messages wait for the ticker's period" if case.paced else None

    def install(self, server: Server, database: str) -> None:
        with psycopg.connect(server.dsn(database), autocommit=True) as connection:
            connection.execute("create extension pgq")

    def open(self, dsn: str, case: Case) -> Session:
        return Session(dsn, case.queues)


def contestant() -> Pgq:
    return Pgq()
