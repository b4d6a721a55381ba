"""Long runs, one contestant after the other, measured in consecutive slices."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from bench import figures
from bench.contestants import entry
from bench.measure import Probe, Stopwatch
from bench.model import Case, Result, Sample
from bench.trials import dead_rows_after, one_by_one

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from contextlib import AbstractContextManager

    from bench.arena import Arena, Lane


class Course(Protocol):
    """A scenario in which the cost may change from start to end."""

    @property
    def name(self) -> str: ...

    @property
    def cases(self) -> Sequence[Case]: ...

    def messages(self, arena: Arena) -> int: ...

    def prepare(self, lane: Lane, messages: int, arena: Arena) -> None: ...

    def disturbance(self, lane: Lane) -> AbstractContextManager[None]:
        """What else goes on in the database meanwhile."""
        ...

    def work(self, lane: Lane, messages: int, watch: Stopwatch) -> None: ...


def go_the_course(scenario: Course, arena: Arena) -> list[Result]:
    return one_by_one(
        scenario.name, scenario.cases, arena, lambda lane: _course(scenario, lane, arena)
    )


def _course(scenario: Course, lane: Lane, arena: Arena) -> Result:
    wanted = scenario.messages(arena)
    warm_up = arena.sizes.warm_up_calls * lane.case.batch
    arena.meter.say(f"{lane.contestant.name}: preparing")
    scenario.prepare(lane, wanted + warm_up, arena)
    probe = Probe(arena.server, lane.session.pids())
    with scenario.disturbance(lane):
        scenario.work(lane, warm_up, Stopwatch())
        samples = tuple(_slices(scenario, lane, probe, wanted, arena))
        dead = dead_rows_after(lane, arena)
    probe.close()
    return Result(
        scenario.name,
        lane.case,
        lane.contestant.name,
        samples,
        course=True,
        dead_rows=dead,
        note=_shortfall(samples, wanted, _time_limit(lane, arena)),
    )


def _time_limit(lane: Lane, arena: Arena) -> float:
    judged = entry(lane.contestant).judged
    return arena.sizes.judged_time_limit if judged else arena.sizes.time_limit


def _shortfall(samples: Sequence[Sample], wanted: int, limit: float) -> str | None:
    done = sum(sample.messages for sample in samples)
    return None if done >= wanted else f"stopped at {limit:g} s, {done:,} of {wanted:,}"


def _slices(
    scenario: Course, lane: Lane, probe: Probe, wanted: int, arena: Arena
) -> Iterator[Sample]:
    sizes, batch = arena.sizes, lane.case.batch
    chores = Chores(lane, sizes.housekeep_every)
    deadline = time.monotonic() + _time_limit(lane, arena)
    for number, batches in enumerate(figures.shares(wanted // batch, sizes.slices), start=1):
        arena.meter.say(f"{lane.contestant.name}: slice {number} of {sizes.slices}")
        watch, done = Stopwatch(), 0
        before = probe.read()
        while done < batches * batch and time.monotonic() < deadline:
            scenario.work(lane, batch, watch)
            done += batch
            chores.when_due()
        if done:
            yield probe.since(before, done, watch)
        if time.monotonic() >= deadline:
            return


@dataclass
class Chores:
    """A worker's housekeeping, every so many seconds; its cost is part of the course."""

    lane: Lane
    every: float
    due: float = field(default_factory=time.monotonic)

    def when_due(self) -> None:
        now = time.monotonic()
        if now >= self.due:
            self.lane.session.housekeep()
            self.due = now + self.every
