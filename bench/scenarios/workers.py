"""More and more worker processes on one backlog, each with a library's own worker."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from bench.contestants import kind
from bench.model import Case
from bench.peers.fleets import FLEETS, fleet
from bench.running import Running, pace
from bench.trials import in_turns

if TYPE_CHECKING:
    from bench.arena import Arena, Lane
    from bench.model import Result, Sample

PROCESSES = (1, 4, 16)
CONCURRENCY = 4


@dataclass(frozen=True)
class WorkerProcesses:
    name: ClassVar[str] = "workers"
    title: ClassVar[str] = f"Worker processes of concurrency {CONCURRENCY} with an empty handler"
    claims: ClassVar[bool] = False
    cases: ClassVar[tuple[Case, ...]] = tuple(
        Case(f"{count} processes", clients=count) for count in PROCESSES
    )

    def run(self, arena: Arena) -> list[Result]:
        able = replace(arena, contestants=[c for c in arena.contestants if kind(c) in FLEETS])
        return in_turns(self.name, self.cases, able, lambda lane: _round(lane, arena))


def _round(lane: Lane, arena: Arena) -> Sample:
    jobs = arena.sizes.fleet_jobs
    # A slow one has jobs left from the round before.
    lane.preload(jobs - (lane.stream.following - lane.ledger.count()), arena.sizes)
    lane.vacuum()
    running = Running(fleet(kind(lane.contestant), lane.case.clients), lane.dsn, CONCURRENCY)
    sample = pace(lane, arena, running, jobs)
    lane.ledger.note(running.arrived)
    return sample
