"""Ways of running a scenario, and what they share."""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from bench.measure import dead_rows
from bench.model import Case, Result

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from bench.arena import Arena, Lane
    from bench.contestants import Contestant
    from bench.model import Sample

#: Seconds for the statistics of an ended session to arrive.
STATISTICS_DELAY = 0.3


def pairs(arena: Arena, cases: Sequence[Case]) -> Iterator[tuple[Case, Contestant, str | None]]:
    """Every contestant in every case, with the reason if it can't take part."""
    for case in cases:
        for contestant in arena.contestants:
            yield case, contestant, arena.refusal(contestant, case)


def described(error: Exception) -> str:
    first_line = (str(error).splitlines() or [""])[0]
    return f"{type(error).__name__}: {first_line}"


def one_by_one(
    scenario: str, cases: Sequence[Case], arena: Arena, run: Callable[[Lane], Result]
) -> list[Result]:
    """One contestant after the other, each in a fresh database, with autovacuum on."""
    tried = list(pairs(arena, cases))
    results: list[Result] = []
    arena.server.autovacuum(on=True)
    for case, contestant, refusal in tried:
        if refusal:
            results.append(Result(scenario, case, contestant.name, skipped=refusal))
        else:
            results.append(_attempt(scenario, case, contestant, arena, run))
        arena.meter.advance(1 / len(tried))
    arena.server.autovacuum(on=False)
    return results


def _attempt(
    scenario: str, case: Case, contestant: Contestant, arena: Arena, run: Callable[[Lane], Result]
) -> Result:
    try:
        with arena.lane(contestant, case) as lane:
            return run(lane)
    except Exception as error:  # noqa: BLE001 - one contestant's fault must not end the run
        return Result(scenario, case, contestant.name, failed=described(error))


def in_turns(
    scenario: str, cases: Sequence[Case], arena: Arena, once: Callable[[Lane], Sample]
) -> list[Result]:
    """Case by case, and round by round: a busy moment of the machine hits every contestant."""
    results: list[Result] = []
    for case in cases:
        results += _rounds(scenario, case, arena, once)
        arena.meter.advance(1 / len(cases))
    return results


def _rounds(
    scenario: str, case: Case, arena: Arena, once: Callable[[Lane], Sample]
) -> list[Result]:
    results: list[Result] = []
    with ExitStack() as stack:
        turns: list[Turns] = []
        for _, contestant, refusal in pairs(arena, [case]):
            if refusal:
                results.append(Result(scenario, case, contestant.name, skipped=refusal))
                continue
            try:
                turns.append(Turns(stack.enter_context(arena.lane(contestant, case))))
            except Exception as error:  # noqa: BLE001 - one contestant's fault must not end the run
                results.append(Result(scenario, case, contestant.name, failed=described(error)))
        for number in range(1, arena.sizes.repeats + 1):
            for turn in turns:
                arena.meter.say(f"{turn.name}, {case.label}, round {number}")
                turn.take(once)
        return [turn.result(scenario) for turn in turns] + results


@dataclass
class Turns:
    """A contestant's rounds in a case; the first that fails is the last."""

    lane: Lane
    samples: list[Sample] = field(default_factory=list)
    failed: str | None = None

    @property
    def name(self) -> str:
        return self.lane.contestant.name

    def take(self, once: Callable[[Lane], Sample]) -> None:
        if self.failed:
            return
        try:
            self.samples.append(once(self.lane))
        except Exception as error:  # noqa: BLE001 - one contestant's fault must not end the run
            self.failed = described(error)

    def result(self, scenario: str) -> Result:
        samples = tuple(self.samples)
        return Result(scenario, self.lane.case, self.name, samples, failed=self.failed)


def dead_rows_after(lane: Lane, arena: Arena) -> dict[str, int]:
    """End the lane's session and see what it left behind."""
    lane.close()
    time.sleep(STATISTICS_DELAY)
    with arena.server.admin(lane.database) as connection:
        return dead_rows(connection)
