"""Runs the steps of two sessions in a given order, without waiting for one that waits itself."""

from __future__ import annotations

import itertools
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import TYPE_CHECKING, Any

import psycopg

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

# A step that takes longer waits for a lock.
BLOCKED_SECONDS = 0.25
LONGEST_SECONDS = 30.0

Answer = tuple[Any, ...] | None


def orders(one: int, other: int) -> Iterator[tuple[int, ...]]:
    """Every way to merge so many steps of session 0 with so many of session 1."""
    for places in itertools.combinations(range(one + other), one):
        yield tuple(0 if place in places else 1 for place in range(one + other))


class Session:
    """A connection with a thread of its own, that keeps what each step answered, and when."""

    def __init__(self, dsn: str, steps: Sequence[str], clock: Iterator[int]) -> None:
        self._db = psycopg.connect(dsn, autocommit=True)
        self._steps = list(steps)
        self._thread = ThreadPoolExecutor(1)
        self._clock = clock
        self._running: Future[None] | None = None
        self.answers: list[list[Any]] = []
        self.ended: list[int] = []
        """When each step was over, in one count for both sessions."""

    def step(self) -> None:
        """Begin the next step, after those that are begun; return when it is over, or waits."""
        self._running = self._thread.submit(self._step, self._steps.pop(0))
        wait([self._running], BLOCKED_SECONDS)

    def finish(self) -> None:
        if self._running is not None:
            self._running.result(LONGEST_SECONDS)

    def close(self) -> None:
        self._thread.shutdown()
        self._db.close()

    def _step(self, statement: str) -> None:
        try:
            cursor = self._db.execute(statement.encode())
            answer = [row[0] for row in cursor.fetchall()] if cursor.description else []
        except psycopg.Error as error:
            # A transaction that failed ends here, and the caller would run it again.
            self._db.rollback()
            answer = [f"error {error.sqlstate}"]
        self.answers.append(answer)
        self.ended.append(next(self._clock))


def run(dsn: str, one: Sequence[str], other: Sequence[str], order: Sequence[int]) -> list[Session]:
    """Play both in that order, and return them with their answers."""
    clock = itertools.count()
    sessions = [Session(dsn, steps, clock) for steps in (one, other)]
    try:
        for number in order:
            sessions[number].step()
        for session in sessions:
            session.finish()
    finally:
        for session in sessions:
            session.close()
    return sessions
