"""Two ways to run a scenario: contestants taking turns, or each going its whole course."""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from bench import figures
from bench.measure import Probe, Stopwatch, dead_rows
from bench.model import Case, Result, Sample

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from contextlib import AbstractContextManager

    from bench.arena import Arena, Lane
    from bench.contestants import Contestant

#: Seconds for the statistics of an ended session to arrive.
STATISTICS_DELAY = 0.3


class Turns(Protocol):
    """A scenario whose rounds are short, so that contestants can take turns."""

    @property
    def name(self) -> str: ...
    @property
    def cases(self) -> Sequence[Case]: ...
    def messages(self, case: Case, arena: Arena) -> int: ...
    def units(self, case: Case, messages: int) -> int:
        """What costs are divided by: the messages, or their deliveries."""
        ...

    def prepare(self, lane: Lane, messages: int, arena: Arena) -> None: ...
    def work(self, lane: Lane, messages: int, watch: Stopwatch) -> None: ...


class Course(Protocol):
    """A scenario in which the cost may change from start to end."""

    @property
    def name(self) -> str: ...
    @property
    def cases(self) -> Sequence[Case]: ...
    def messages(self, arena: Arena) -> int: ...
    def prepare(self, lane: Lane, messages: int, arena: Arena) -> None: ...
    def disturbance(self, lane: Lane) -> AbstractContextManager[None]: ...
    def work(self, lane: Lane, messages: int, watch: Stopwatch) -> None: ...


def pairs(arena: Arena, cases: Sequence[Case]) -> Iterator[tuple[Case, Contestant, str | None]]:
    for case in cases:
        for contestant in arena.contestants:
            yield case, contestant, arena.refusal(contestant, case)


@dataclass
class _Turn:
    lane: Lane
    probe: Probe
    samples: list[Sample] = field(default_factory=list)


def take_turns(scenario: Turns, arena: Arena) -> list[Result]:
    """A B C A B C …, each with a database of its own, vacuumed before each of its turns."""
    with ExitStack() as stack:
        turns: list[_Turn] = []
        skipped: list[Result] = []
        for case, contestant, refusal in pairs(arena, scenario.cases):
            if refusal:
                skipped.append(Result(scenario.name, case, contestant.name, skipped=refusal))
                continue
            lane = stack.enter_context(arena.lane(contestant, case))
            probe = Probe(arena.server, lane.session.pids())
            stack.callback(probe.close)
            turns.append(_Turn(lane, probe))
        for repeat in range(arena.sizes.repeats):
            for turn in turns:
                arena.meter.say(
                    f"{turn.lane.contestant.name}, {turn.lane.case.label}, {repeat + 1}"
                )
                turn.samples.append(_one_turn(scenario, turn, arena))
                arena.meter.advance(1 / arena.sizes.repeats / len(turns))
        return [_finished(scenario.name, turn, arena) for turn in turns] + skipped


def _one_turn(scenario: Turns, turn: _Turn, arena: Arena) -> Sample:
    lane = turn.lane
    messages = scenario.messages(lane.case, arena)
    warm_up = arena.sizes.warm_up_calls * lane.case.batch
    scenario.prepare(lane, messages + warm_up, arena)
    lane.vacuum()
    scenario.work(lane, warm_up, Stopwatch())
    watch = Stopwatch()
    before = turn.probe.read()
    scenario.work(lane, messages, watch)
    return turn.probe.since(before, scenario.units(lane.case, messages), watch)


def _finished(scenario: str, turn: _Turn, arena: Arena) -> Result:
    lane = turn.lane
    return Result(
        scenario,
        lane.case,
        lane.contestant.name,
        tuple(turn.samples),
        dead_rows=_dead_rows_after(lane, arena),
    )


def _dead_rows_after(lane: Lane, arena: Arena) -> dict[str, int]:
    lane.close()
    time.sleep(STATISTICS_DELAY)
    with arena.server.admin(lane.database) as connection:
        return dead_rows(connection)


def go_the_course(scenario: Course, arena: Arena) -> list[Result]:
    """One contestant after the other, with autovacuum on, in consecutive slices."""
    results: list[Result] = []
    tried = list(pairs(arena, scenario.cases))
    arena.server.autovacuum(on=True)
    for case, contestant, refusal in tried:
        if refusal:
            results.append(Result(scenario.name, case, contestant.name, skipped=refusal))
        else:
            with arena.lane(contestant, case) as lane:
                results.append(_one_course(scenario, lane, arena))
        arena.meter.advance(1 / len(tried))
    arena.server.autovacuum(on=False)
    return results


def _one_course(scenario: Course, lane: Lane, arena: Arena) -> Result:
    name, sizes = lane.contestant.name, arena.sizes
    warm_up = sizes.warm_up_calls * lane.case.batch
    wanted = scenario.messages(arena)
    arena.meter.say(f"{name}: preparing")
    scenario.prepare(lane, wanted + warm_up, arena)
    probe = Probe(arena.server, lane.session.pids())
    with scenario.disturbance(lane):
        scenario.work(lane, warm_up, Stopwatch())
        samples = list(_slices(scenario, lane, probe, wanted, arena))
        dead = _dead_rows_after(lane, arena)
    probe.close()
    done = sum(sample.messages for sample in samples)
    note = None if done >= wanted else f"stopped at {sizes.time_limit:g} s, {done:,} of {wanted:,}"
    return Result(
        scenario.name, lane.case, name, tuple(samples), course=True, dead_rows=dead, note=note
    )


def _slices(
    scenario: Course, lane: Lane, probe: Probe, wanted: int, arena: Arena
) -> Iterator[Sample]:
    sizes = arena.sizes
    chores = _Chores(lane, sizes.housekeep_every)
    deadline = time.monotonic() + sizes.time_limit
    batch = lane.case.batch
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
class _Chores:
    """A worker's housekeeping, every so many seconds; its cost is part of the course."""

    lane: Lane
    every: float
    due: float = field(default_factory=time.monotonic)

    def when_due(self) -> None:
        now = time.monotonic()
        if now >= self.due:
            self.lane.session.housekeep()
            self.due = now + self.every
