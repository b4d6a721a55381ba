"""Whole workers: jobs per second through a handler that does nothing, and waking an idle one.

Unlike the other scenarios this one measures the libraries' own loops, Python and all.
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from bench.contestants import kind
from bench.measure import Probe, Stopwatch
from bench.model import Case, Result
from bench.peers.workers import WORKERS
from bench.running import CONCURRENCY, pace, worker_of
from bench.trials import dead_rows_after, one_by_one

if TYPE_CHECKING:
    from bench.arena import Arena, Lane
    from bench.model import Sample
    from bench.running import Running

#: Backlogs for each; the middle one counts.
ROUNDS = 5
#: Seconds between two messages for an idle worker: it is asleep again by then.
QUIET = 0.2
#: Seconds after which a message for an idle worker counts as lost.
PATIENCE = 10.0


@dataclass(frozen=True)
class WholeWorker:
    name: ClassVar[str] = "worker"
    title: ClassVar[str] = "Whole workers with an empty handler: a backlog, and waking when idle"
    claims: ClassVar[bool] = False
    BACKLOG: ClassVar[Case] = Case(f"concurrency {CONCURRENCY}", batch=1)
    IDLE: ClassVar[Case] = Case("idle, one message", batch=1)

    def run(self, arena: Arena) -> list[Result]:
        # Only libraries have a worker; the others would fill the table with dashes.
        able = replace(arena, contestants=[c for c in arena.contestants if kind(c) in WORKERS])
        idle = one_by_one(self.name, [self.IDLE], able, lambda lane: self._idle(lane, arena))
        return [*self._backlogs(able), *idle]

    def _backlogs(self, arena: Arena) -> list[Result]:
        """Round by round in turns, so that a busy moment of the machine hits everybody."""
        with ExitStack() as stack:
            lanes = [
                stack.enter_context(arena.lane(contestant, self.BACKLOG))
                for contestant in arena.contestants
            ]
            rounds: dict[str, list[Sample]] = {lane.contestant.name: [] for lane in lanes}
            for number in range(1, ROUNDS + 1):
                for lane in lanes:
                    rounds[lane.contestant.name].append(self._round(lane, arena, number))
            return [self._result(lane, rounds[lane.contestant.name], arena) for lane in lanes]

    def _result(self, lane: Lane, samples: list[Sample], arena: Arena) -> Result:
        done, jobs = min(sample.messages for sample in samples), arena.sizes.jobs
        note = None if done == jobs else f"{done:,} of {jobs:,} in {arena.sizes.worker_seconds:g} s"
        return Result(
            self.name,
            lane.case,
            lane.contestant.name,
            tuple(samples),
            dead_rows=dead_rows_after(lane, arena),
            note=note,
        )

    def _round(self, lane: Lane, arena: Arena, number: int) -> Sample:
        jobs = arena.sizes.jobs
        arena.meter.say(f"{lane.contestant.name}: {jobs:,} jobs, round {number}")
        lane.preload(jobs, arena.sizes)
        lane.vacuum()
        return pace(lane, arena, worker_of(lane), jobs)

    def _idle(self, lane: Lane, arena: Arena) -> Result:
        arena.meter.say(f"{lane.contestant.name}: waking up")
        running = worker_of(lane)
        probe = Probe(arena.server, {})
        running.start()
        try:
            self._wake(lane, running, Stopwatch(), arena.sizes.warm_up_calls)
            watch = Stopwatch()
            before = probe.read()
            self._wake(lane, running, watch, arena.sizes.wake_ups)
        finally:
            running.stop()
        sample = probe.since(before, max(1, len(watch.latencies)), watch)
        probe.close()
        sample = replace(sample, cpu_ns={"server": sample.server_cpu_ns})
        return Result(self.name, lane.case, lane.contestant.name, (sample,))

    def _wake(self, lane: Lane, running: Running, watch: Stopwatch, count: int) -> None:
        """Publish one message at a time to a worker that sleeps; from commit to handler."""
        for payload in lane.stream.take(count):
            time.sleep(QUIET)
            lane.session.publish_one(payload)
            published = time.perf_counter()
            running.wait(len(running.arrived) + (payload.number not in running.arrived), PATIENCE)
            arrived = running.arrived.get(payload.number, published + PATIENCE)
            watch.latencies.append(max(0.0, arrived - published))
