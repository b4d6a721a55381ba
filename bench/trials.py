"""What both ways of running a scenario share."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from bench.measure import dead_rows
from bench.model import Case, Result

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from bench.arena import Arena, Lane
    from bench.contestants import Contestant

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


def dead_rows_after(lane: Lane, arena: Arena) -> dict[str, int]:
    """End the lane's session and see what it left behind."""
    lane.close()
    time.sleep(STATISTICS_DELAY)
    with arena.server.admin(lane.database) as connection:
        return dead_rows(connection)
