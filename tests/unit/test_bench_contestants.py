"""Which contestants a run has, and the processes in which their workers run."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from bench.contestants import entry, gather, kind
from bench.peers.fleets import FLEETS
from bench.peers.processes import WorkerEnded, run_workers
from bench.peers.workers import WORKERS, Jobs
from bench.targets import OTHER_FLEETS

#: Speaks as a worker's process does: four numbers, then it waits for the end of its input.
WORKER = (
    "import sys; print('ready', flush=True); input();"
    " print('1 2\\n3 4', flush=True); sys.stdin.read()"
)
#: Ends while it should work.
QUITTER = "print('ready', flush=True); input()"


def test_another_engine_follows_each_penstock() -> None:
    found = gather(["penstock", "textbook", "penstock-next"], Path("other.sql"))
    assert [each.name for each in found] == [
        "penstock",
        "penstock-other",
        "textbook",
        "penstock-next",
        "penstock-next-other",
    ]


def test_a_twin_is_known_by_the_name_of_its_twin() -> None:
    ours, other = gather(["penstock"], Path("other.sql"))
    assert kind(other) == "penstock"
    assert entry(other) is entry(ours)


def test_without_another_engine_there_are_no_twins() -> None:
    assert [each.name for each in gather(["penstock"])] == ["penstock"]


def test_every_fleet_is_of_a_known_worker_and_is_judged() -> None:
    assert set(FLEETS) <= set(WORKERS)
    assert set(OTHER_FLEETS) == set(FLEETS) - {"penstock"}


def _run(program: str, count: int, wanted: int) -> list[int]:
    """The numbers that the processes tell, until so many have come."""
    numbers: list[int] = []

    async def main() -> None:
        stop = asyncio.Event()

        def handled(number: int) -> None:
            numbers.append(number)
            if len(numbers) == wanted:
                stop.set()

        words = [sys.executable, "-c", program]
        await run_workers(words, count, Jobs(1, 0.0, handled), stop)

    asyncio.run(main())
    return numbers


def test_all_processes_tell_what_they_have_done() -> None:
    assert sorted(_run(WORKER, 2, wanted=8)) == [1, 1, 2, 2, 3, 3, 4, 4]


def test_a_process_that_ends_early_is_an_error() -> None:
    with pytest.raises(WorkerEnded, match="before it was told to"):
        _run(QUITTER, 1, wanted=1)
