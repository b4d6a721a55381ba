"""A steady load on a queue, and how well it is served second by second."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Self

from bench.payloads import Stream

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.contestants import Session

BATCH = 8
# So many at once that consumers claim at the same time.
BURST = 20 * BATCH
HOUSEKEEPING_SECONDS = 5.0
IDLE_SECONDS = 0.002
TAIL = 0.99


@dataclass(frozen=True, slots=True)
class Window:
    """A stretch of time: what was done in it."""

    messages_per_second: float
    p99_ms: float
    claims: int


@dataclass
class Steady:
    """Publishes at a rate, in bursts, and consumes what comes: each session in its own thread."""

    publisher: Session
    consumers: Sequence[Session]
    rate: int
    published: int = 0
    consumed: int = 0
    claims: list[tuple[float, float, int]] = field(default_factory=list)
    """When, how long, how many; only claims that got something."""

    def __post_init__(self) -> None:
        self._stop = threading.Event()
        self._trouble: list[Exception] = []
        self._counting = threading.Lock()
        works = [self._publish, *(partial(self._consume, each) for each in self.consumers)]
        self._threads = [
            threading.Thread(target=self._guarded, args=(work,), daemon=True) for work in works
        ]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def window(self, begun: float, ended: float) -> Window:
        """What was done between two moments of time.monotonic()."""
        if self._trouble:
            raise self._trouble[0]
        # The consumer goes on appending: what is there is looked at, whole.
        inside = [each for each in list(self.claims) if begun <= each[0] < ended]
        durations = sorted(each[1] for each in inside)
        tail = durations[int(len(durations) * TAIL)] if durations else float("inf")
        messages = sum(each[2] for each in inside)
        return Window(messages / (ended - begun), tail * 1000, len(inside))

    @property
    def behind(self) -> int:
        """Published and not consumed yet."""
        return self.published - self.consumed

    def _guarded(self, work: object) -> None:
        try:
            work()  # type: ignore[operator]
        except Exception as error:  # noqa: BLE001 - told by the next window
            self._trouble.append(error)

    def _publish(self) -> None:
        stream = Stream()
        begun = time.monotonic()
        while not self._stop.is_set():
            due = int((time.monotonic() - begun) * self.rate) - self.published
            for payloads in stream.batches(due - due % BURST, BURST):
                self.publisher.publish_batch(payloads)
                self.published += len(payloads)
            time.sleep(BATCH / self.rate)

    def _consume(self, consumer: Session) -> None:
        tidied = time.monotonic()
        while not self._stop.is_set():
            begun = time.monotonic()
            claim = consumer.claim(BATCH)
            if len(claim):
                self.claims.append((begun, time.monotonic() - begun, len(claim)))
                consumer.ack(claim)
                with self._counting:
                    self.consumed += len(claim)
            else:
                time.sleep(IDLE_SECONDS)
            if consumer is self.consumers[0] and begun - tidied > HOUSEKEEPING_SECONDS:
                consumer.housekeep()
                tidied = begun
