"""What every queue under test must offer, and which ones there are."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from bench.model import Case
    from bench.payloads import Payload
    from bench.server import Server


@dataclass(frozen=True, slots=True)
class Claim:
    """Messages in hand: their numbers in the stream, and what the session needs to ack them."""

    numbers: Sequence[int]
    handle: object

    def __len__(self) -> int:
        return len(self.numbers)


class Session(Protocol):
    """One client of the queue, with a backend of its own for each role that is told apart."""

    def publish_one(self, payload: Payload) -> None: ...

    def publish_batch(self, payloads: Sequence[Payload]) -> None: ...

    def settle(self) -> None:
        """Make what was published claimable, where that takes a step of its own."""

    def preload(self, payloads: Sequence[Payload], batch: int) -> None:
        """Publish a backlog, by the quickest way, that will be claimed in batches of that size."""

    def claim(self, size: int, queue: int = 0) -> Claim: ...

    def ack(self, claim: Claim) -> None: ...

    def housekeep(self) -> None:
        """What a worker of this queue does from time to time besides its messages."""

    def pids(self) -> Mapping[str, int]:
        """Backend process by role."""

    def close(self) -> None: ...


class Contestant(Protocol):
    @property
    def name(self) -> str: ...

    def unavailable(self, server: Server) -> str | None:
        """Why this server can't run it, or None."""

    def refuses(self, case: Case) -> str | None:
        """Why it can't do this case, or None."""

    def install(self, server: Server, database: str) -> None: ...

    def open(self, dsn: str, case: Case) -> Session:
        """Open a session on an installed database, with the case's queues on one topic."""


@runtime_checkable
class HasTwin(Protocol):
    """A contestant that can also be had from another version of its SQL."""

    def twin(self, name: str, install: Path) -> Contestant: ...


@dataclass(frozen=True, slots=True)
class Entry:
    """Where a contestant is made; its package is imported only when it takes part."""

    module: str
    factory: str
    about: str
    default: bool = True
    #: Takes part only where claims are measured: the same queue with durable claims.
    durable_claims: bool = False
    #: Targets judge its courses, so they are run to the end.
    judged: bool = False
    #: The scenarios that it takes part in, if not all of them.
    only: tuple[str, ...] = ()
    #: Can keep the messages of a key in order.
    keyed: bool = False


#: Scenarios in which libraries run with their own workers, which keep their claims to themselves.
WHOLE = ("worker", "jobs", "workers")

ENTRIES: Mapping[str, Entry] = {
    "penstock": Entry(
        "penstock_sql", "relaxed", "claims with synchronous_commit off", judged=True, keyed=True
    ),
    "penstock-next": Entry(
        "penstock_sql",
        "joined",
        "an ack and the next claim in one call",
        only=("clients",),
        keyed=True,
    ),
    "textbook": Entry("textbook", "inline", "UPDATE … SKIP LOCKED + DELETE, prepared statements"),
    "textbook-fn": Entry("textbook", "functions", "the same statements in PL/pgSQL functions"),
    "penstock-sync": Entry(
        "penstock_sql", "durable", "claims with synchronous_commit on", durable_claims=True
    ),
    "textbook-sync": Entry(
        "textbook", "inline_durable", "claims with synchronous_commit on", durable_claims=True
    ),
    "textbook-hot": Entry(
        "textbook", "hot", "no index on the deadline, so that claims update in place", default=False
    ),
    "pgmq": Entry("pgmq_peer", "contestant", "its SQL functions, read and delete", keyed=True),
    "pgqueuer": Entry("pgqueuer_peer", "contestant", "its Queries on asyncpg"),
    "procrastinate": Entry("procrastinate_peer", "contestant", "its JobManager on psycopg"),
    "pgq": Entry("pgq", "contestant", "the PGQ extension, a tick per batch"),
    "chancy": Entry("chancy_peer", "contestant", "its worker with async jobs", only=WHOLE),
    "awa": Entry("awa_peer", "contestant", "its worker in Rust, handlers in Python", only=WHOLE),
    "pg-boss": Entry("node_peers", "pg_boss", "its workers, in Node.js", only=WHOLE),
    "graphile-worker": Entry(
        "node_peers", "graphile_worker", "its worker with a local queue, in Node.js", only=WHOLE
    ),
}


#: Ends the name of a contestant that has its SQL from another version of the engine.
OTHER = "-other"


def kind(contestant: Contestant) -> str:
    """The name by which tables know it: that of its twin, if it runs another engine."""
    return contestant.name.removesuffix(OTHER)


def entry(contestant: Contestant) -> Entry:
    return ENTRIES[kind(contestant)]


def make(name: str) -> Contestant:
    made = ENTRIES[name]
    factory: Callable[[], Contestant] = getattr(
        import_module(f"bench.peers.{made.module}"), made.factory
    )
    return factory()


@dataclass(frozen=True, slots=True)
class Absent:
    """Stands in for a contestant whose package is not installed."""

    name: str
    reason: str

    def unavailable(self, server: Server) -> str | None:  # noqa: ARG002
        return self.reason

    def refuses(self, case: Case) -> str | None:  # noqa: ARG002
        return self.reason

    def install(self, server: Server, database: str) -> None:
        raise NotImplementedError(self.reason)

    def open(self, dsn: str, case: Case) -> Session:
        raise NotImplementedError(self.reason)


def gather(names: Sequence[str], other_engine: Path | None = None) -> list[Contestant]:
    """The contestants of these names; with another engine, each Penstock is followed by a twin."""
    found: list[Contestant] = []
    for name in names:
        try:
            made = make(name)
        except ImportError as error:
            found.append(Absent(name, f"not installed ({error.name}); see the `bench` extra"))
            continue
        found.append(made)
        if other_engine and isinstance(made, HasTwin):
            # Next to each other, so that their rounds are as close in time as can be.
            found.append(made.twin(made.name + OTHER, other_engine))
    return found
