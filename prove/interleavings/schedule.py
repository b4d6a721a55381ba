"""Plays scripts against each other, in an order that is given step by step.

A statement that has to wait for another session's lock stays where it is; the order goes on with
the other sessions, and what was due meanwhile follows as soon as it can.
"""

from __future__ import annotations

import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import psycopg

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    Session = psycopg.Connection[Any]
    Step = Callable[[Session], object]
    Script = Sequence[Step]

_PAUSE = 0.0005
_PATIENCE = 30.0


def orders(*lengths: int) -> Iterator[tuple[int, ...]]:
    """Every way to mix so many steps of session 0 with so many of session 1, and so on."""
    if not any(lengths):
        yield ()
    for who, left in enumerate(lengths):
        if left:
            for rest in orders(*lengths[:who], left - 1, *lengths[who + 1 :]):
                yield (who, *rest)


@dataclass(frozen=True, slots=True)
class Refused:
    """A statement that the database said no to, and why."""

    state: str


@dataclass
class Player:
    """One session: what it still has to do, what it is doing, and what came of the rest."""

    session: Session
    script: Script
    results: list[object] = field(default_factory=list)
    _due: int = 0
    _threads: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1))
    _doing: Future[object] | None = None

    def next(self) -> None:
        """One more step is due."""
        self._due += 1

    def go_on(self, waits: Callable[[int], bool]) -> bool:
        """Do what is due, until it is done or has to wait; whether anything moved."""
        moved = False
        while self._doing or len(self.results) < self._due:
            if self._doing is None:
                step = self.script[len(self.results)]
                self._doing = self._threads.submit(_tried, step, self.session)
            if not _settled(self._doing, lambda: waits(self.session.info.backend_pid)):
                return moved
            self.results.append(self._doing.result())
            self._doing, moved = None, True
        return moved

    @property
    def finished(self) -> bool:
        return self._doing is None and len(self.results) == len(self.script)

    def close(self) -> None:
        self._threads.shutdown()


def _tried(step: Step, session: Session) -> object:
    try:
        return step(session)
    except psycopg.Error as error:
        return Refused(error.sqlstate or "")


def _settled(doing: Future[object], waits: Callable[[], bool]) -> bool:
    """Wait until the statement is done, or waits for a lock: then False."""
    end = time.monotonic() + _PATIENCE
    while not doing.done():
        if waits():
            return doing.done()
        if time.monotonic() > end:
            raise TimeoutError("a statement neither ended nor waited for a lock")
        time.sleep(_PAUSE)
    return True


def play(
    order: Sequence[int],
    scripts: Sequence[Script],
    sessions: Sequence[Session],
    observer: Session,
) -> list[list[object]]:
    """What every step of each session returned."""
    players = [Player(*pair) for pair in zip(sessions, scripts, strict=True)]

    def waits(pid: int) -> bool:
        statement = "select cardinality(pg_blocking_pids(%s)) > 0"
        row = observer.execute(statement, (pid,)).fetchone()
        return bool(row and row[0])

    try:
        for who in order:
            players[who].next()
            while any(player.go_on(waits) for player in players):
                pass
        end = time.monotonic() + _PATIENCE
        while not all(player.finished for player in players):
            if time.monotonic() > end:
                raise TimeoutError("the sessions wait for each other")
            for player in players:
                player.go_on(waits)
            time.sleep(_PAUSE)
    finally:
        for player in players:
            player.close()
    return [player.results for player in players]
