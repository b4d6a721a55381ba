"""Single messages on an idle queue: from the call that publishes one to the loop that has it.

A question to our clients, whose consumers sleep in between; peers are measured without their loops.
"""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

import penstock
import penstock.sync
from bench import figures
from bench.contestants import kind
from bench.measure import Probe, Stopwatch
from bench.model import Case, Result
from bench.peers.penstock_sql import queue_name
from bench.trials import one_by_one

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from bench.arena import Arena, Lane

#: Seconds after which a message counts as lost.
PATIENCE = 60.0
JUDGED = "penstock"


@dataclass
class _Arrivals:
    """The numbers of messages, each with the moment at which a loop got it."""

    seen: queue.Queue[tuple[int, float]] = field(default_factory=queue.Queue)

    def note(self, number: int) -> None:
        self.seen.put((number, time.perf_counter()))

    def of(self, number: int) -> float:
        found, at = self.seen.get(timeout=PATIENCE)
        if found != number:
            raise RuntimeError(f"message {found} came instead of {number}")
        return at


def _async_loop(dsn: str, arrivals: _Arrivals, stopped: threading.Event) -> None:
    asyncio.run(_consume(dsn, arrivals, stopped))


async def _consume(dsn: str, arrivals: _Arrivals, stopped: threading.Event) -> None:
    async with penstock.connect(dsn) as mq, mq.consume(queue_name(0)) as consumer:
        while not stopped.is_set():
            message = await consumer.get(0.5)
            if message is not None:
                arrivals.note(message.payload["n"])
                await message.ack()


def _blocking_loop(dsn: str, arrivals: _Arrivals, stopped: threading.Event) -> None:
    with penstock.sync.connect(dsn) as mq, mq.consume(queue_name(0)) as consumer:
        while not stopped.is_set():
            message = consumer.get(0.5)
            if message is not None:
                arrivals.note(message.payload["n"])
                message.ack()


LOOPS: Mapping[str, Callable[[str, _Arrivals, threading.Event], None]] = {
    "penstock.connect()": _async_loop,
    "penstock.sync.connect()": _blocking_loop,
}


def _publish(
    lane: Lane, messages: int, pause: float, arrivals: _Arrivals
) -> tuple[list[float], list[float]]:
    """Seconds to each arrival, and those of them that the publishing call itself took."""
    latencies, calls = [], []
    for payload in lane.stream.take(messages):
        # The consumer has acked, looked again in vain, and sleeps.
        time.sleep(pause)
        published = time.perf_counter()
        lane.session.publish_one(payload)
        calls.append(time.perf_counter() - published)
        latencies.append(arrivals.of(payload.number) - published)
    return latencies, calls


@dataclass(frozen=True)
class Wakeup:
    name: ClassVar[str] = "wakeup"
    title: ClassVar[str] = "Single messages on an idle queue, from publish to the consumer's loop"
    claims: ClassVar[bool] = False
    cases: ClassVar[tuple[Case, ...]] = tuple(Case(label, paced=True) for label in LOOPS)

    def run(self, arena: Arena) -> list[Result]:
        return one_by_one(self.name, self.cases, arena, lambda lane: self._one(lane, arena))

    def _one(self, lane: Lane, arena: Arena) -> Result:
        contestant, sizes = lane.contestant.name, arena.sizes
        if kind(lane.contestant) != JUDGED:
            return Result(self.name, lane.case, contestant, skipped="measured without its loop")
        arena.meter.say(f"{contestant}: {lane.case.label}")
        arrivals, stopped = _Arrivals(), threading.Event()
        arguments = (lane.dsn, arrivals, stopped)
        thread = threading.Thread(target=LOOPS[lane.case.label], args=arguments)
        thread.start()
        try:
            _publish(lane, sizes.warm_up_calls, sizes.wakeup_pause, arrivals)
            probe = Probe(arena.server, lane.session.pids())
            before = probe.read()
            latencies, calls = _publish(lane, sizes.wakeups, sizes.wakeup_pause, arrivals)
            sample = probe.since(before, sizes.wakeups, Stopwatch(latencies))
            probe.close()
        finally:
            stopped.set()
            thread.join()
        call = figures.percentiles(calls)
        note = f"the publishing call itself: {call.p50:.2f} ms" if call else None
        return Result(self.name, lane.case, contestant, (sample,), note=note)
