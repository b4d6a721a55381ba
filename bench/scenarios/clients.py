"""One queue and more and more clients: claim and ack, in ones and tens, by key; many publishers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from bench import pgbench
from bench.contestants import kind
from bench.measure import Probe, Stopwatch
from bench.model import Case
from bench.peers.scripts import SCRIPTS
from bench.peers.sessions import OPTIONS
from bench.trials import in_turns

if TYPE_CHECKING:
    from bench.arena import Arena, Lane
    from bench.model import Result, Sample

CLIENTS = (1, 4, 16, 64)
PUBLISHERS = 64
#: Keys of a fifo queue: many more than clients, so that none has to wait for a key.
KEYS = 10_000
#: A client claims and acks on one connection, and every commit waits for the disk.
DURABLE = f"{OPTIONS} -c synchronous_commit=on"


class RanDry(Exception):
    """The backlog ended before the time did."""


@dataclass(frozen=True)
class Clients:
    name: ClassVar[str] = "clients"
    title: ClassVar[str] = "One queue, more and more clients"
    claims: ClassVar[bool] = False
    cases: ClassVar[tuple[Case, ...]] = (
        *(Case(f"{count} clients, batch {batch}", batch=batch, clients=count)
          for batch in (1, 10) for count in CLIENTS),
        *(Case(f"{count} clients, {KEYS:,} keys", clients=count, keys=KEYS) for count in (4, 16)),
        Case(f"{PUBLISHERS} publishers", clients=PUBLISHERS, claims=False),
    )  # fmt: skip

    def run(self, arena: Arena) -> list[Result]:
        able = replace(arena, contestants=[c for c in arena.contestants if kind(c) in SCRIPTS])
        return in_turns(self.name, self.cases, able, lambda lane: _round(lane, arena))


def _round(lane: Lane, arena: Arena) -> Sample:
    case, sizes, scripts = lane.case, arena.sizes, SCRIPTS[kind(lane.contestant)]
    backlog = sizes.client_backlog * min(case.batch, 4) if case.claims else 0
    lane.preload(backlog, sizes)
    lane.vacuum()
    script = scripts.claim(case.batch) if case.claims else scripts.publish_one
    load = pgbench.Load(script, case.clients, sizes.client_seconds, sizes.client_warm_up)
    probe = Probe(arena.server, {})
    acked = _acked(lane, arena)
    before = probe.read()
    pace = pgbench.run(arena.server.program("pgbench"), lane.dsn, load, options=DURABLE)
    sample = probe.since(before, 1, Stopwatch())
    probe.close()
    if case.claims and _acked(lane, arena) - acked >= backlog:
        raise RanDry(f"all {backlog:,} messages were done before the time was up")
    done = round(pace.per_second * case.batch * sizes.client_seconds)
    share = sizes.client_seconds / (sizes.client_seconds + sizes.client_warm_up)
    return replace(
        sample,
        messages=max(1, done),
        seconds=float(sizes.client_seconds),
        cpu_ns={"server": round(sample.server_cpu_ns * share)},
        server_cpu_ns=round(sample.server_cpu_ns * share),
        wal_bytes=round(sample.wal_bytes * share),
        latencies=(pace.milliseconds / 1000,),
    )


def _acked(lane: Lane, arena: Arena) -> int:
    with arena.server.admin(lane.database) as connection:
        row = connection.execute(SCRIPTS[kind(lane.contestant)].acked.encode()).fetchone()
    assert row is not None
    return int(row[0])
