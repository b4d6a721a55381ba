"""The three connections of a contestant that is plain SQL, opened alike for all of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, LiteralString

import psycopg
from psycopg.types.json import Jsonb

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bench.payloads import Payload

#: Planning a claim costs more than running it; every contestant in plain SQL gets generic plans.
OPTIONS = "-c plan_cache_mode=force_generic_plan"
LEASE_SECONDS = 600


def connect(dsn: str, *, durable: bool) -> psycopg.Connection:
    commit = "on" if durable else "off"
    return psycopg.connect(
        dsn, autocommit=True, options=f"{OPTIONS} -c synchronous_commit={commit}"
    )


@dataclass(frozen=True, slots=True)
class Connections:
    """A backend for each role, so that the CPU of each is known by itself."""

    publish: psycopg.Connection
    claim: psycopg.Connection
    ack: psycopg.Connection

    @classmethod
    def open(cls, dsn: str, *, durable_claims: bool) -> Connections:
        return cls(
            publish=connect(dsn, durable=True),
            claim=connect(dsn, durable=durable_claims),
            ack=connect(dsn, durable=True),
        )

    def pids(self) -> Mapping[str, int]:
        return {
            "publish": self.publish.info.backend_pid,
            "claim": self.claim.info.backend_pid,
            "ack": self.ack.info.backend_pid,
        }

    def close(self) -> None:
        for connection in (self.publish, self.claim, self.ack):
            connection.close()


def rows(
    connection: psycopg.Connection,
    query: LiteralString,
    parameters: Sequence[object] | Mapping[str, object],
) -> list[tuple[Any, ...]]:
    """Run a prepared statement in a transaction of its own; rows travel in binary."""
    with connection.cursor(binary=True) as cursor:
        return cursor.execute(query, parameters, prepare=True).fetchall()


def jsonb(payload: Payload) -> Jsonb:
    return Jsonb(payload.text, dumps=str)


def jsonb_array(payloads: Sequence[Payload]) -> list[Jsonb]:
    return [jsonb(payload) for payload in payloads]
