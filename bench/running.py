"""A library's own worker at work on a lane, and its pace."""

from __future__ import annotations

import asyncio
import threading
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from bench.contestants import kind
from bench.measure import Probe, Stopwatch
from bench.peers.workers import WORKERS, Jobs

if TYPE_CHECKING:
    from bench.arena import Arena, Lane
    from bench.model import Sample
    from bench.peers.workers import Serve

CONCURRENCY = 50
#: Seconds until the first job, at most: many processes load their libraries before.
STARTING = 60.0


@dataclass
class Running:
    """A worker in a thread and an event loop of its own, as in a process of its own."""

    serve: Serve
    dsn: str
    concurrency: int = CONCURRENCY
    seconds: float = 0.0
    arrived: dict[int, float] = field(default_factory=dict)
    #: The moment at which processes were told to begin, where that is known.
    begun: float | None = None
    failure: BaseException | None = None
    _thread: threading.Thread | None = None
    _loop: asyncio.AbstractEventLoop | None = None
    _stop: asyncio.Event | None = None

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def stop(self) -> None:
        # After a failure the loop is closed.
        if self.failure is None and self._loop is not None and self._stop is not None:
            self._loop.call_soon_threadsafe(self._stop.set)
        assert self._thread is not None
        self._thread.join()
        if self.failure is not None:
            raise self.failure

    def wait(self, count: int, seconds: float) -> None:
        """Until so many have arrived, or the time is up."""
        end = time.perf_counter() + seconds
        while len(self.arrived) < count and time.perf_counter() < end and self.failure is None:
            time.sleep(0.0005 if count < CONCURRENCY else 0.01)

    def _run(self) -> None:
        try:
            asyncio.run(self._main())
        except BaseException as error:  # noqa: BLE001 - told to whoever stops us
            self.failure = error

    async def _main(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        jobs = Jobs(self.concurrency, self.seconds, self._handled, self._begin)
        await self.serve(self.dsn, jobs, self._stop)

    def _begin(self) -> None:
        self.begun = time.perf_counter()

    def _handled(self, number: int) -> None:
        self.arrived.setdefault(number, time.perf_counter())


def pace(lane: Lane, arena: Arena, running: Running, jobs: int) -> Sample:
    """What a backlog of jobs costs, until the last of them reaches the handler.

    The time begins with the first of them, or when processes of workers were told to begin.
    """
    probe = Probe(arena.server, {})
    before = probe.read()
    running.start()
    running.wait(1, STARTING)
    running.wait(jobs, arena.sizes.worker_seconds)
    running.stop()
    sample = probe.since(before, max(1, len(running.arrived)), Stopwatch())
    probe.close()
    times = sorted(running.arrived.values())
    if not times:
        raise RuntimeError(f"{lane.contestant.name}: no job in {arena.sizes.worker_seconds:g} s")
    # Starting up and winding down are not the pace.
    seconds = times[-1] - (running.begun or times[0])
    return replace(sample, seconds=seconds, cpu_ns={"server": sample.server_cpu_ns})


def worker_of(lane: Lane, concurrency: int = CONCURRENCY, seconds: float = 0.0) -> Running:
    return Running(WORKERS[kind(lane.contestant)], lane.dsn, concurrency, seconds)
