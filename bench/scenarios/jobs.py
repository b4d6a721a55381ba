"""Whole workers, few jobs at a time and many, with jobs that take no time and a millisecond."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from bench.contestants import kind
from bench.model import Case, Result
from bench.peers.workers import WORKERS
from bench.running import pace, worker_of
from bench.trials import one_by_one

if TYPE_CHECKING:
    from bench.arena import Arena, Lane

CONCURRENCIES = (1, 8, 64)
MILLISECONDS = (0, 1)


def _case(concurrency: int, milliseconds: int) -> Case:
    return Case(f"{milliseconds} ms, {concurrency} at a time", at=concurrency)


#: How many at a time, and how long a job takes, by case.
SETTINGS = {
    _case(many, long): (many, long / 1000) for long in MILLISECONDS for many in CONCURRENCIES
}


@dataclass(frozen=True)
class WorkersAndJobs:
    name: ClassVar[str] = "jobs"
    title: ClassVar[str] = "Whole workers: jobs of 0 and 1 ms, 1 to 64 at a time"
    claims: ClassVar[bool] = False

    def run(self, arena: Arena) -> list[Result]:
        able = replace(arena, contestants=[c for c in arena.contestants if kind(c) in WORKERS])
        return one_by_one(self.name, list(SETTINGS), able, lambda lane: self._one(lane, arena))

    def _one(self, lane: Lane, arena: Arena) -> Result:
        concurrency, seconds = SETTINGS[lane.case]
        jobs = arena.sizes.jobs
        arena.meter.say(f"{lane.contestant.name}: {lane.case.label}")
        lane.preload(jobs, arena.sizes)
        lane.vacuum()
        sample = pace(lane, arena, worker_of(lane, concurrency, seconds), jobs)
        return Result(self.name, lane.case, lane.contestant.name, (sample,))
