"""A steady stream of single messages while a snapshot is held: end-to-end latency."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar

from bench import disturbances, work
from bench.measure import Probe, Stopwatch
from bench.model import Case, Result
from bench.trials import dead_rows_after, one_by_one

if TYPE_CHECKING:
    from bench.arena import Arena, Lane
    from bench.contestants import Session
    from bench.sizes import Sizes

#: Seconds that the consumer gets after the last message was due.
GRACE = 1.0


@dataclass
class _Producer:
    """Publishes message n at its due time, or at once when late; never skips one."""

    session: Session
    lane: Lane
    sizes: Sizes
    started: float = field(default_factory=time.perf_counter)
    first: int = 0
    failure: Exception | None = None

    def __post_init__(self) -> None:
        self.first = self.lane.stream.following

    @property
    def total(self) -> int:
        return round(self.sizes.pace * self.sizes.paced_seconds)

    @property
    def ends_at(self) -> float:
        return self.started + self.sizes.paced_seconds

    def due(self, number: int) -> float:
        return self.started + (number - self.first) / self.sizes.pace

    def run(self) -> None:
        try:
            for payload in self.lane.stream.take(self.total):
                wait = self.due(payload.number) - time.perf_counter()
                if wait > 0:
                    time.sleep(wait)
                if time.perf_counter() > self.ends_at + GRACE:
                    return
                self.session.publish_one(payload)
        except Exception as error:  # noqa: BLE001 - told to the thread that waits for us
            self.failure = error


def _consume(lane: Lane, producer: _Producer, sizes: Sizes) -> list[float]:
    """Seconds from each message's due time to its arrival."""
    latencies: list[float] = []
    while len(latencies) < producer.total and time.perf_counter() < producer.ends_at + GRACE:
        claim = lane.session.claim(lane.case.batch)
        arrived = time.perf_counter()
        if not claim.numbers:
            time.sleep(sizes.poll_seconds)
            continue
        lane.ledger.note(claim.numbers)
        latencies += [arrived - producer.due(number) for number in claim.numbers]
        lane.session.ack(claim)
    return latencies


def _warm_up(lane: Lane, session: Session, calls: int) -> None:
    """A worker is connected long before a message comes."""
    for payload in lane.stream.take(calls):
        session.publish_one(payload)
    work.claim_and_ack(lane, calls, Stopwatch())


@dataclass(frozen=True)
class Paced:
    name: ClassVar[str] = "paced"
    title: ClassVar[str] = "A steady stream while a snapshot is held, latency end to end"
    claims: ClassVar[bool] = False
    cases: ClassVar[tuple[Case, ...]] = (Case("batch up to 10", batch=10, paced=True),)

    def run(self, arena: Arena) -> list[Result]:
        return one_by_one(self.name, self.cases, arena, lambda lane: self._one(lane, arena))

    def _one(self, lane: Lane, arena: Arena) -> Result:
        arena.meter.say(f"{lane.contestant.name}: {arena.sizes.pace} messages a second")
        work.settle_in(lane, arena.sizes)
        with disturbances.held_snapshot(lane.dsn):
            session = lane.contestant.open(lane.dsn, lane.case)
            try:
                _warm_up(lane, session, arena.sizes.warm_up_calls)
                result = self._measure(lane, session, arena)
            finally:
                session.close()
            return replace(result, dead_rows=dead_rows_after(lane, arena))

    def _measure(self, lane: Lane, session: Session, arena: Arena) -> Result:
        roles = {f"producer {role}": pid for role, pid in session.pids().items()}
        probe = Probe(arena.server, {**roles, **lane.session.pids()})
        before = probe.read()
        producer = _Producer(session, lane, arena.sizes)
        thread = threading.Thread(target=producer.run)
        thread.start()
        latencies = _consume(lane, producer, arena.sizes)
        thread.join()
        if producer.failure:
            raise producer.failure
        sample = probe.since(before, max(1, len(latencies)), Stopwatch(latencies))
        probe.close()
        missing = producer.total - len(latencies)
        note = f"fell behind: {missing:,} of {producer.total:,} not delivered" if missing else None
        return Result(self.name, lane.case, lane.contestant.name, (sample,), note=note)
