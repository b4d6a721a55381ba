"""A Spark stream and a pipeline while their server is killed, or fails over and loses a tail."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from typing import TYPE_CHECKING

import psycopg

from prove.actors.names import TOPIC

if TYPE_CHECKING:
    import random
    from collections.abc import Callable
    from pathlib import Path

    from prove.parts.spark import Archive

LAST_RUN_SECONDS = 400
UNRULY = 1_000_000_000
"""The first number of the unruly publisher."""


class Stream:
    """The actor `prove.actors.stream` in a process group of its own."""

    def __init__(self, dsn: str, folder: Path) -> None:
        self._dsn, self._folder = dsn, folder / "stream"
        self._folder.mkdir()

    def start(self, *words: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "prove.actors.stream", self._dsn, str(self._folder)]
        with (self._folder / "stream.log").open("ab") as log:
            return subprocess.Popen(
                [*command, *words], start_new_session=True, stdout=log, stderr=log
            )

    def rows(self) -> list[int]:
        """The numbers in its files, after a run with --once."""
        return [int(word) for word in (self._folder / "numbers").read_text().split()]


class Unruly:
    """Publishes in transactions that stay open for a while; some commit late, some roll back."""

    def __init__(self, dsn: str, luck: random.Random) -> None:
        self._dsn, self._luck = dsn, luck
        self._stop = threading.Event()
        self._number = UNRULY
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self._connected()
            except psycopg.Error:
                self._stop.wait(0.2)

    def _connected(self) -> None:
        with psycopg.connect(self._dsn, autocommit=True, connect_timeout=2) as db:
            while not self._stop.is_set():
                db.execute("begin")
                for _ in range(self._luck.randint(1, 3)):
                    self._number += 1
                    text = str(self._number)
                    db.execute("select penstock.publish_message(%s, %s::jsonb)", (TOPIC, text))
                self._stop.wait(self._luck.choice((0.02, 0.05, 0.1, 0.6)))
                db.execute("rollback" if self._luck.random() < 0.5 else "commit")


class Readers:
    """The archive and the stream, kept running whatever happens to their server."""

    def __init__(self, archive: Archive, stream: Stream) -> None:
        self.archive, self.stream = archive, stream
        self._running: list[subprocess.Popen[bytes] | None] = [None, None]
        self.starts = 0

    def keep_running(self) -> None:
        starts: tuple[Callable[[], subprocess.Popen[bytes]], ...] = (
            lambda: self.archive.start("--on-lost-offset", "rewind", "--max-rows", "5000"),
            self.stream.start,
        )
        for place, start in enumerate(starts):
            process = self._running[place]
            if process is None or process.poll() is not None:
                self._running[place] = start()
                self.starts += 1

    def end(self) -> None:
        """Kill them, and let them read the rest."""
        self.kill()
        for last in (
            self.archive.start("--once", "--on-lost-offset", "rewind"),
            self.stream.start("--once"),
        ):
            assert last.wait(LAST_RUN_SECONDS) == 0, "see archive.log and stream.log"

    def kill(self) -> None:
        for process in self._running:
            if process is not None and process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def strike(readers: Readers, times: int, luck: random.Random, blow: Callable[[int], None]) -> None:
    """Let them work, strike the server, and go on."""
    readers.keep_running()
    await_rows(readers)
    for number in range(times):
        time.sleep(luck.uniform(0.5, 4))
        blow(number)
        readers.keep_running()


def await_rows(readers: Readers) -> None:
    """Until the archive has written something: a blow before that strikes nothing."""
    deadline = time.monotonic() + LAST_RUN_SECONDS
    while not readers.archive.rows():
        assert time.monotonic() < deadline, "the archive writes nothing: see archive.log"
        readers.keep_running()
        time.sleep(0.5)


def judged(dsn: str, readers: Readers) -> dict[str, int]:
    """What the log has and they have not, and what they have more than once."""
    with psycopg.connect(dsn, autocommit=True) as db:
        rows = db.execute("select payload from penstock.log where topic = %s", (TOPIC,)).fetchall()
    there = {number for (number,) in rows}
    archived, streamed = Counter(readers.archive.rows()), Counter(readers.stream.rows())
    return {
        "there": len(there),
        "lost by the archive": len(there - archived.keys()),
        "lost by the stream": len(there - streamed.keys()),
        "archived twice": sum(archived[each] > 1 for each in there),
        "streamed twice": sum(streamed[each] > 1 for each in there),
        "starts": readers.starts,
    }
