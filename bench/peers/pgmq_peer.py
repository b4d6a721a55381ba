"""pgmq's SQL without the extension, from the wheel of its Python client."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from psycopg.types.numeric import Int8

from bench.contestants import Claim
from bench.peers.penstock_sql import queue_name
from bench.peers.sessions import LEASE_SECONDS, Connections, jsonb, jsonb_array, rows

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bench.model import Case
    from bench.payloads import Payload
    from bench.server import Server

CREATE_QUEUE = "select pgmq.create(%s)"
PUBLISH_ONE = "select pgmq.send(queue, %b) from unnest(%s::text[]) as queue"
PUBLISH_BATCH = """
    select count(*) from unnest(%s::text[]) as queue, pgmq.send_batch(queue, %b::jsonb[])
    """
CLAIM = "select msg_id, message from pgmq.read(%s, %s::int, %s::int)"
ACK_ONE = "select pgmq.delete(%s::text, %b)::int"
ACK_BATCH = "select count(*) from pgmq.delete(%s::text, %b::bigint[])"


def _install_sql() -> Path | None:
    """The wheel's file; its package is not imported, because it wants more than we use."""
    spec = find_spec("pgmq")
    if spec is None or spec.origin is None:
        return None
    file = Path(spec.origin).parent / "sql" / "pgmq.sql"
    return file if file.exists() else None


class Session:
    def __init__(self, dsn: str, queues: int) -> None:
        self._connections = Connections.open(dsn, durable_claims=False)
        self._queues = [queue_name(queue) for queue in range(queues)]
        for name in self._queues:
            self._connections.publish.execute(CREATE_QUEUE, (name,))

    def publish_one(self, payload: Payload) -> None:
        rows(self._connections.publish, PUBLISH_ONE, (jsonb(payload), self._queues))

    def publish_batch(self, payloads: Sequence[Payload]) -> None:
        rows(self._connections.publish, PUBLISH_BATCH, (self._queues, jsonb_array(payloads)))

    def settle(self) -> None:
        pass

    def preload(self, payloads: Sequence[Payload], batch: int) -> None:  # noqa: ARG002
        self.publish_batch(payloads)

    def claim(self, size: int, queue: int = 0) -> Claim:
        name = self._queues[queue]
        found = rows(self._connections.claim, CLAIM, (name, LEASE_SECONDS, size))
        return Claim([row[1]["n"] for row in found], (name, [Int8(row[0]) for row in found]))

    def ack(self, claim: Claim) -> None:
        held: Any = claim.handle
        name, ids = held
        if len(ids) == 1:
            done = rows(self._connections.ack, ACK_ONE, (name, ids[0]))[0][0]
        else:
            done = rows(self._connections.ack, ACK_BATCH, (name, ids))[0][0]
        if done != len(ids):
            raise RuntimeError(f"acked {done} of {len(ids)} messages")

    def housekeep(self) -> None:
        """Nothing: autovacuum does it."""

    def pids(self) -> Mapping[str, int]:
        return self._connections.pids()

    def close(self) -> None:
        self._connections.close()


@dataclass(frozen=True, slots=True)
class Pgmq:
    name: str = "pgmq"

    def unavailable(self, server: Server) -> str | None:  # noqa: ARG002
        return None if _install_sql() else "its SQL is not installed: pip install --no-deps pgmq"

    def refuses(self, case: Case) -> str | None:
        return "its reads by group are not measured" if case.keys else None

    def install(self, server: Server, database: str) -> None:
        file = _install_sql()
        assert file is not None
        server.run_file(file, database)

    def open(self, dsn: str, case: Case) -> Session:
        return Session(dsn, case.queues)


def contestant() -> Pgmq:
    return Pgmq()
