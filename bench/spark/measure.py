"""How it is measured: each way in turn, wall time and processor time, and the largest memory."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING, Self

import psutil

if TYPE_CHECKING:
    from collections.abc import Callable

    from bench.spark.place import Place

OURS = "ours"
JDBC = "jdbc"


@dataclass(slots=True)
class Contest:
    """Seconds of each way, round by round."""

    name: str
    messages: int
    seconds: dict[str, list[float]] = field(default_factory=dict)
    cpu: dict[str, list[float]] = field(default_factory=dict)
    """Seconds of processor time, of Spark and the server together: what a busy machine shows."""
    shares: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    """The same, by whose it was: Java, Python, the server."""
    notes: dict[str, float] = field(default_factory=dict)

    def ratio(self, way: str) -> float:
        """How many times as fast as the JDBC way, by the medians."""
        return median(self.seconds[JDBC]) / median(self.seconds[way])


def _timed(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def _cpu(place: Place) -> dict[str, float]:
    """Processor time so far of Java, of Python (this process included) and of the server."""
    totals = {"java": 0.0, "python": 0.0, "postgres": 0.0}
    for root in (psutil.Process(), place.server.process):
        for each in (root, *root.children(recursive=True)):
            with suppress(psutil.Error):
                kind = next((kind for kind in totals if each.name().startswith(kind)), "python")
                # Of processes that have ended, their parents know.
                totals[kind] += sum(each.cpu_times()[:4])
    return totals


def play(
    place: Place,
    contest: Contest,
    ways: dict[str, Callable[[], object]],
    rounds: int,
    before: Callable[[], None],
) -> Contest:
    """Each way in turn, so that a disturbance meets all of them; the first round only warms up."""
    for number in range(rounds + 1):
        for name, work in ways.items():
            before()
            used = _cpu(place)
            taken = _timed(work)
            if number:
                spent = {kind: total - used[kind] for kind, total in _cpu(place).items()}
                contest.seconds.setdefault(name, []).append(taken)
                contest.cpu.setdefault(name, []).append(sum(spent.values()))
                for kind, share in spent.items():
                    contest.shares.setdefault(name, {}).setdefault(kind, []).append(share)
    return contest


class Memory:
    """The largest memory that this process and its children had, by kind."""

    def __init__(self) -> None:
        self.peaks: dict[str, int] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_problem: object) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._stop.wait(0.5):
            for each in psutil.Process().children(recursive=True):
                try:
                    kind = "java" if "java" in each.name() else each.name()
                    size = each.memory_info().rss
                except psutil.Error:
                    continue
                self.peaks[kind] = max(self.peaks.get(kind, 0), size)
