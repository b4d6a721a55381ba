"""The actors of one history: processes that are started, stopped, killed."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

from prove.actors.publisher import PROCESS
from prove.ledger import History, Ledger, Step
from prove.recorder import ROOT, Recorder

if TYPE_CHECKING:
    from collections.abc import Callable

    from prove.ledger import Entry

    Actor = subprocess.Popen[bytes]

PATIENCE_SECONDS = 180.0


class Cast:
    def __init__(self, dsn: str, recorder: Recorder) -> None:
        self.dsn = dsn
        self.folder = recorder.file.parent
        self.recorder = recorder
        self.actors: list[Actor] = []
        self._faults = Ledger(recorder.pipe, "programme")
        self._history = History(recorder.file)
        self._first = 0

    def entries(self) -> list[Entry]:
        """The history as far as it has got."""
        return self._history.entries()

    def count(self, step: Step) -> int:
        return sum(entry.step is step for entry in self.entries())

    def fault(self, name: str, count: int = 1) -> None:
        """Write down what was done to the system."""
        self._faults.note(Step.FAULT, count, place=name.replace(" ", "_"))

    def start(
        self, part: str, *words: str, dsn: str | None = None, under: tuple[str, ...] = ()
    ) -> Actor:
        """Start an actor; `under`: the command that runs it."""
        command = [*under, sys.executable, "-m", "prove.actors", part, *words]
        place = ["--dsn", dsn or self.dsn, "--pipe", str(self.recorder.pipe)]
        with (self.folder / f"{part}.log").open("ab") as log:
            actor = subprocess.Popen([*command, *place], cwd=ROOT, stdout=log, stderr=log)
        self.actors.append(actor)
        return actor

    def publishers(
        self, count: int, *words: str, dsn: str | None = None, part: str = "publish"
    ) -> list[Actor]:
        """Publishers whose numbers never meet; returns when each was told of something stored."""
        firsts = [self._first + number * PROCESS for number in range(count)]
        self._first += count * PROCESS
        begun = [self.start(part, "--first", str(first), *words, dsn=dsn) for first in firsts]
        self.until(lambda: self._published(firsts), f"nothing is published: see {part}.log")
        return begun

    def _published(self, firsts: list[int]) -> bool:
        acked = [each.number for each in self.entries() if each.step is Step.ACKED]
        return all(any(first <= each < first + PROCESS for each in acked) for first in firsts)

    def workers(
        self, count: int, *words: str, dsn: str | None = None, part: str = "work"
    ) -> list[Actor]:
        return [self.start(part, *words, dsn=dsn) for _ in range(count)]

    def stop(self, actors: list[Actor]) -> list[int]:
        """End actors in an orderly way; returns their exit codes."""
        for actor in actors:
            actor.send_signal(signal.SIGTERM)
        return [actor.wait(timeout=PATIENCE_SECONDS) for actor in actors]

    def close(self, publishers: list[Actor], workers: list[Actor]) -> None:
        """Publishing stops, everything is drained, and nobody has left by himself."""
        assert not any(self.stop(publishers)), "a publisher failed: see its log"
        self.await_drained()
        assert all(worker.poll() is None for worker in workers), "a worker left by itself"
        # The youngest may not have got as far as to mind signals.
        assert {0, -signal.SIGTERM} >= set(self.stop(workers)), "a worker failed: see its log"
        self.recorder.finish()

    def kill(self, actors: list[Actor]) -> None:
        for actor in actors:
            if actor.poll() is None:
                actor.kill()
            actor.wait()

    def end(self) -> None:
        self.kill(self.actors)

    def drained(self) -> bool:
        """Nothing is left to do."""
        raise NotImplementedError

    def await_drained(self) -> None:
        self.until(self.drained, "the queue is never empty")

    def until(self, condition: Callable[[], bool], otherwise: str) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not condition():
            assert time.monotonic() < deadline, otherwise
            time.sleep(0.1)
