"""Penstock through its SQL door, with psycopg and prepared statements."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from psycopg.types.numeric import Int8

from bench.contestants import Claim
from bench.peers.sessions import LEASE_SECONDS, Connections, jsonb, jsonb_array, rows

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bench.model import Case
    from bench.payloads import Payload
    from bench.server import Server

INSTALL = Path(__file__).resolve().parents[2] / "sql" / "install.sql"
TOPIC = "orders"
TOKEN = "bench"

CREATE_QUEUE = "select penstock.create_queue(%s, %s, ordering => %s)"
PUBLISH_ONE = "select penstock.publish_message(%s, %b)"
PUBLISH_BATCH = "select count(*) from penstock.publish_messages(%s, %b)"
PUBLISH_KEYED = "select count(*) from penstock.publish_messages(%s, %b, keys => %s)"
CLAIM_ONE = "select message_id, payload from penstock.consume_message(%s, %s, %s)"
CLAIM_BATCH = "select message_id, payload from penstock.consume_messages_batch(%s, %s, %s, %s)"
ACK_ONE = "select penstock.ack_message(%s, %b, %s)"
ACK_BATCH = "select count(*) from penstock.ack_messages(%s, %b, %s)"
MAINTAIN = "select penstock.maintain()"


def queue_name(queue: int) -> str:
    return f"queue-{queue}"


def _held(claim: Claim) -> tuple[str, list[Int8]]:
    held: Any = claim.handle
    return held[0], held[1]


class Session:
    def __init__(self, dsn: str, case: Case, *, durable_claims: bool) -> None:
        ordering = "fifo" if case.keys else "standard"
        self._connections = Connections.open(dsn, durable_claims=durable_claims)
        self._connections.publish.execute("select penstock.create_topic(%s)", (TOPIC,))
        for queue in range(case.queues):
            self._connections.publish.execute(CREATE_QUEUE, (queue_name(queue), TOPIC, ordering))

    def publish_one(self, payload: Payload) -> None:
        rows(self._connections.publish, PUBLISH_ONE, (TOPIC, jsonb(payload)))

    def publish_batch(self, payloads: Sequence[Payload]) -> None:
        documents = jsonb_array(payloads)
        if payloads[0].key is None:
            rows(self._connections.publish, PUBLISH_BATCH, (TOPIC, documents))
        else:
            keys = [payload.key for payload in payloads]
            rows(self._connections.publish, PUBLISH_KEYED, (TOPIC, documents, keys))

    def settle(self) -> None:
        pass

    def preload(self, payloads: Sequence[Payload], batch: int) -> None:  # noqa: ARG002
        self.publish_batch(payloads)

    def claim(self, size: int, queue: int = 0) -> Claim:
        whom = (queue_name(queue), TOKEN, LEASE_SECONDS)
        if size == 1:
            found = rows(self._connections.claim, CLAIM_ONE, whom)
        else:
            found = rows(self._connections.claim, CLAIM_BATCH, (*whom, size))
        ids = [Int8(row[0]) for row in found]
        return Claim([row[1]["n"] for row in found], (queue_name(queue), ids))

    def ack(self, claim: Claim) -> None:
        queue, ids = _held(claim)
        if len(ids) == 1:
            done = int(rows(self._connections.ack, ACK_ONE, (queue, ids[0], TOKEN))[0][0])
        else:
            done = rows(self._connections.ack, ACK_BATCH, (queue, ids, TOKEN))[0][0]
        if done != len(ids):
            raise RuntimeError(f"acked {done} of {len(ids)} messages")

    def housekeep(self) -> None:
        rows(self._connections.ack, MAINTAIN, ())

    def pids(self) -> Mapping[str, int]:
        return self._connections.pids()

    def close(self) -> None:
        self._connections.close()


@dataclass(frozen=True, slots=True)
class Penstock:
    name: str
    durable_claims: bool
    #: Differs from the others in how it claims alone, and has nothing to tell of publishing.
    only_claims: bool = False
    sql: Path = INSTALL

    def unavailable(self, server: Server) -> str | None:  # noqa: ARG002
        return None if self.sql.exists() else f"{self.sql} is missing"

    def refuses(self, case: Case) -> str | None:
        return "publishes as penstock does" if self.only_claims and not case.claims else None

    def install(self, server: Server, database: str) -> None:
        server.run_file(self.sql, database)

    def open(self, dsn: str, case: Case) -> Session:
        return Session(dsn, case, durable_claims=self.durable_claims)

    def twin(self, name: str, install: Path) -> Penstock:
        return replace(self, name=name, sql=install)


def relaxed() -> Penstock:
    return Penstock("penstock", durable_claims=False)


def joined() -> Penstock:
    return Penstock("penstock-next", durable_claims=True, only_claims=True)


def durable() -> Penstock:
    return Penstock("penstock-sync", durable_claims=True)
