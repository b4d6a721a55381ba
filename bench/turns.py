"""Short rounds in which the contestants take turns: A B C A B C …"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from bench.measure import Probe, Stopwatch
from bench.model import Case, Result, Sample
from bench.trials import dead_rows_after, described, pairs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.arena import Arena, Lane


#: The first round fills caches and gives the planner tables that look used; it doesn't count.
WARM_UP_ROUNDS = 1


class Rounds(Protocol):
    """A scenario whose rounds are short enough to take turns."""

    @property
    def name(self) -> str: ...

    @property
    def cases(self) -> Sequence[Case]: ...

    def messages(self, case: Case, arena: Arena) -> int:
        """Messages of one round."""
        ...

    def units(self, case: Case, messages: int) -> int:
        """What costs are divided by: the messages, or their deliveries."""
        ...

    def prepare(self, lane: Lane, messages: int, arena: Arena) -> None: ...

    def work(self, lane: Lane, messages: int, watch: Stopwatch) -> None: ...


@dataclass
class Seat:
    """A contestant's place at the table, kept for all rounds of a case."""

    lane: Lane
    probe: Probe
    samples: list[Sample] = field(default_factory=list)
    failed: str | None = None


def take_turns(scenario: Rounds, arena: Arena) -> list[Result]:
    """Each contestant has a database of its own, vacuumed before each of its turns."""
    with ExitStack() as stack:
        seats, absent = _seated(scenario, arena, stack)
        rounds = WARM_UP_ROUNDS + arena.sizes.repeats
        for _ in range(rounds):
            for seat in seats:
                _turn(scenario, seat, arena)
                arena.meter.advance(1 / rounds / len(seats))
        return [_result(scenario.name, seat, arena) for seat in seats] + absent


def _seated(scenario: Rounds, arena: Arena, stack: ExitStack) -> tuple[list[Seat], list[Result]]:
    seats: list[Seat] = []
    absent: list[Result] = []
    for case, contestant, refusal in pairs(arena, scenario.cases):
        if refusal:
            absent.append(Result(scenario.name, case, contestant.name, skipped=refusal))
            continue
        try:
            lane = stack.enter_context(arena.lane(contestant, case))
        except Exception as error:  # noqa: BLE001 - one contestant's fault must not end the run
            absent.append(Result(scenario.name, case, contestant.name, failed=described(error)))
            continue
        seats.append(Seat(lane, Probe(arena.server, lane.session.pids())))
        stack.callback(seats[-1].probe.close)
    return seats, absent


def _turn(scenario: Rounds, seat: Seat, arena: Arena) -> None:
    if seat.failed:
        return
    lane, number = seat.lane, len(seat.samples) + 1
    arena.meter.say(f"{lane.contestant.name}, {lane.case.label}, round {number}")
    try:
        seat.samples.append(_round(scenario, seat, arena))
    except Exception as error:  # noqa: BLE001 - one contestant's fault must not end the run
        seat.failed = described(error)


def _round(scenario: Rounds, seat: Seat, arena: Arena) -> Sample:
    lane = seat.lane
    messages = scenario.messages(lane.case, arena)
    warm_up = arena.sizes.warm_up_calls * lane.case.batch
    scenario.prepare(lane, messages + warm_up, arena)
    lane.vacuum()
    limit = arena.sizes.round_limit
    scenario.work(lane, warm_up, Stopwatch(limit=limit))
    watch = Stopwatch(limit=limit)
    before = seat.probe.read()
    scenario.work(lane, messages, watch)
    return seat.probe.since(before, scenario.units(lane.case, messages), watch)


def _result(scenario: str, seat: Seat, arena: Arena) -> Result:
    case, name = seat.lane.case, seat.lane.contestant.name
    if seat.failed:
        return Result(scenario, case, name, failed=seat.failed)
    dead = dead_rows_after(seat.lane, arena)
    return Result(scenario, case, name, tuple(seat.samples[WARM_UP_ROUNDS:]), dead_rows=dead)
