"""Rounds in which the contestants take turns, on backlogs that stay as they are."""

from __future__ import annotations

import statistics
import time
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench.tasks.places import NAIVE, OURS, TURNS, Place, contestant

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from bench.tasks.contestants import Contestant

BATCH = 10
_MANY = 100


@dataclass(frozen=True, slots=True)
class Figure:
    """Median milliseconds of one call."""

    database: str
    store: str
    backlog: int
    tenants: int
    enqueue_1: float
    enqueue_100: float
    reserve_10: float
    ack: float

    @property
    def per_task(self) -> float:
        """Reserve and ack of one task, reserved ten at a time."""
        return self.reserve_10 / BATCH + self.ack


@dataclass(frozen=True, slots=True)
class Entry:
    """A store with a backlog, in a database of its own."""

    contestant: Contestant
    database: str
    backlog: int


async def run(place: Place, backlogs: Sequence[int], tenants: int, rounds: int) -> list[Figure]:
    """All stores with all backlogs in turns: what the machine does meanwhile, it does to all."""
    kinds = [OURS, TURNS, NAIVE] if tenants > 1 else [OURS, NAIVE]
    entries: list[Entry] = []
    try:
        for backlog in backlogs:
            for kind in kinds:
                name = f"{kind}_{backlog}"
                entries.append(Entry(await contestant(place, kind, name), name, backlog))
                await place.fill(name, backlog, tenants)
        spent = await _rounds(entries, rounds)
    finally:
        for each in entries:
            await each.contestant.close()
            place.drop(each.database)
    return [
        Figure(
            place.name,
            each.contestant.name,
            each.backlog,
            tenants,
            **_medians(spent[each.database]),
        )
        for each in entries
    ]


async def _rounds(entries: list[Entry], rounds: int) -> dict[str, dict[str, list[float]]]:
    spent: dict[str, dict[str, list[float]]] = {
        each.database: defaultdict(list) for each in entries
    }
    # The first two rounds open connections, prepare statements and warm caches.
    for number in range(-2, rounds):
        for each in entries:
            times = await _round(each.contestant)
            if number >= 0:
                for name, seconds in times.items():
                    spent[each.database][name].append(seconds)
    return spent


async def _round(each: Contestant) -> dict[str, float]:
    """As many tasks come as go, so that the backlog stays."""
    taken: list[object] = []

    async def reserve() -> None:
        taken.extend(await each.reserve(BATCH))
        assert len(taken) == BATCH

    return {
        "reserve_10": await _timed(reserve),
        "ack": await _timed(lambda: each.ack(taken)) / BATCH,
        "enqueue_1": await _timed(lambda: each.enqueue(1)),
        "enqueue_100": await _timed(lambda: each.enqueue(_MANY)),
    }


async def _timed(call: Callable[[], Awaitable[object]]) -> float:
    begun = time.perf_counter()
    await call()
    return time.perf_counter() - begun


def _medians(spent: dict[str, list[float]]) -> dict[str, float]:
    return {name: round(statistics.median(seconds) * 1000, 3) for name, seconds in spent.items()}
