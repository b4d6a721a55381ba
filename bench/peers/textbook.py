"""The textbook queue (textbook.sql), with inline prepared statements or through functions."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from psycopg.types.numeric import Int8

from bench.contestants import Claim
from bench.peers.sessions import LEASE_SECONDS, Connections, jsonb, jsonb_array, rows
from bench.peers.textbook_statements import FUNCTIONS, HOT, INLINE, Statements

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bench.model import Case
    from bench.payloads import Payload
    from bench.server import Server

SCHEMA = Path(__file__).with_name("textbook.sql")
WITHOUT_DEADLINE_INDEX = Path(__file__).with_name("textbook_hot.sql")


class Session:
    def __init__(
        self, dsn: str, queues: int, statements: Statements, *, durable_claims: bool
    ) -> None:
        self._connections = Connections.open(dsn, durable_claims=durable_claims)
        self._queues = [f"queue-{queue}" for queue in range(queues)]
        self._statements = statements

    def publish_one(self, payload: Payload) -> None:
        if len(self._queues) > 1:
            self.publish_batch([payload])
            return
        parameters = {"queue": self._queues[0], "payload": jsonb(payload)}
        rows(self._connections.publish, self._statements.publish_one, parameters)

    def publish_batch(self, payloads: Sequence[Payload]) -> None:
        parameters = {"queues": self._queues, "payloads": jsonb_array(payloads)}
        rows(self._connections.publish, self._statements.publish_batch, parameters)

    def settle(self) -> None:
        pass

    def preload(self, payloads: Sequence[Payload], batch: int) -> None:  # noqa: ARG002
        self.publish_batch(payloads)

    def claim(self, size: int, queue: int = 0) -> Claim:
        parameters = {"queue": self._queues[queue], "lease": LEASE_SECONDS}
        if size == 1:
            found = rows(self._connections.claim, self._statements.claim_one, parameters)
        else:
            parameters |= {"size": size}
            found = rows(self._connections.claim, self._statements.claim_batch, parameters)
        return Claim([row[1]["n"] for row in found], [Int8(row[0]) for row in found])

    def ack(self, claim: Claim) -> None:
        ids: list[Int8] = claim.handle  # type: ignore[assignment]
        if len(ids) == 1:
            found = rows(self._connections.ack, self._statements.ack_one, {"id": ids[0]})
        else:
            found = rows(self._connections.ack, self._statements.ack_batch, {"ids": ids})
        if found[0][0] != len(ids):
            raise RuntimeError(f"acked {found[0][0]} of {len(ids)} messages")

    def housekeep(self) -> None:
        """Nothing: autovacuum does it."""

    def pids(self) -> Mapping[str, int]:
        return self._connections.pids()

    def close(self) -> None:
        self._connections.close()


@dataclass(frozen=True, slots=True)
class Textbook:
    name: str
    statements: Statements = INLINE
    files: tuple[Path, ...] = (SCHEMA,)
    durable_claims: bool = False

    def unavailable(self, server: Server) -> str | None:  # noqa: ARG002
        return None

    def refuses(self, case: Case) -> str | None:  # noqa: ARG002
        return None

    def install(self, server: Server, database: str) -> None:
        for file in self.files:
            server.run_file(file, database)

    def open(self, dsn: str, case: Case) -> Session:
        return Session(dsn, case.queues, self.statements, durable_claims=self.durable_claims)


def inline() -> Textbook:
    return Textbook("textbook")


def functions() -> Textbook:
    return Textbook("textbook-fn", FUNCTIONS)


def inline_durable() -> Textbook:
    return Textbook("textbook-sync", durable_claims=True)


def hot() -> Textbook:
    return Textbook("textbook-hot", HOT, (SCHEMA, WITHOUT_DEADLINE_INDEX))
