"""A Spark stream into a lake is killed in the middle of its batches, and so is its server."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from importlib.util import find_spec
from typing import TYPE_CHECKING

import psutil

from prove import outages
from prove.actors.names import TOPIC
from prove.cast import PATIENCE_SECONDS
from prove.ledger import Step
from prove.model import Outcome, Part
from prove.replicas import pair
from prove.servers import mortal
from prove.stage import staged

if TYPE_CHECKING:
    import random
    from collections.abc import Callable
    from pathlib import Path

    from prove.model import Take
    from prove.stage import Stage

ROWS = 200
LAST_RUN_SECONDS = 400


def play(take: Take) -> Outcome:
    if find_spec("pyspark") is None or find_spec("deltalake") is None:
        return Outcome(skipped="Spark is not installed: pip install 'penstock-mq[spark]'")
    kills = take.size(full=20, quick=1, twin=3)
    with mortal() as server, staged(server.dsn(), take.folder) as stage:
        archive = Archive(server.database.tcp_dsn, take.folder)
        publishers = stage.publishers(2, "--lanes", "2", "--batch", "5", "--pause", "0.1")
        _harass(take, stage, archive, kills)
        assert not any(stage.stop(publishers)), "a publisher failed: see publish.log"
        assert archive.start("--once").wait(LAST_RUN_SECONDS) == 0, "the archive: see archive.log"
        stage.recorder.finish()
        outcome = _outcome(stage, archive.rows(), kills)
    if take.sabotaged:
        return outcome
    return _with_outages(take, outcome)


def _with_outages(take: Take, outcome: Outcome) -> Outcome:
    """The same with the server killed, and with standbys promoted that lag."""
    kills, promotions = take.size(full=30, quick=1), take.size(full=10, quick=1)
    killed = kill_servers(take.folder / "kills", kills, take.luck)
    take.say(f"{kills} server kills: {killed}")
    promoted = promote(take.folder / "promotions", promotions, take.luck)
    take.say(f"{promotions} promotions: {promoted}")
    broken = {f"{name} (kills)": count for name, count in killed.items() if _is_fault(name, count)}
    broken |= {
        f"{name} (promotions)": count
        for name, count in promoted.items()
        # After a fail-over that lost a tail, messages may come twice.
        if _is_fault(name, count) and "twice" not in name
    }
    counts = {
        **outcome.counts,
        "server kills": kills,
        "promotions": promotions,
        **{f"{name} (kills)": count for name, count in killed.items()},
        **{f"{name} (promotions)": count for name, count in promoted.items()},
    }
    return Outcome(counts, {**outcome.broken, **broken})


def _is_fault(name: str, count: int) -> bool:
    return bool(count) and ("lost" in name or "twice" in name)


def kill_servers(folder: Path, kills: int, luck: random.Random) -> dict[str, int]:
    folder.mkdir()
    # Only transactions that ask for it are flushed.
    with mortal(wal_writer_delay="10s") as server:
        dsn = server.database.tcp_dsn

        def kill(_number: int) -> None:
            server.kill()
            server.start()

        return _struck(dsn, folder, kills, luck, kill)


def promote(folder: Path, promotions: int, luck: random.Random) -> dict[str, int]:
    folder.mkdir()
    folder.chmod(0o755)
    with pair(folder, synchronous=False) as servers:

        def fail_over(_number: int) -> None:
            servers.silence()
            time.sleep(luck.uniform(0.5, 2))
            servers.fail_over()
            servers.follow()

        return _struck(servers.dsn, folder, promotions, luck, fail_over)


def _struck(
    dsn: str, folder: Path, times: int, luck: random.Random, blow: Callable[[int], None]
) -> dict[str, int]:
    with staged(dsn, folder / "stage") as stage:
        readers = outages.Readers(Archive(dsn, folder), outages.Stream(dsn, folder))
        # Few enough that the readers are never far behind: then their offsets are young.
        publishers = stage.publishers(1, "--lanes", "2", "--batch", "5", "--pause", "0.3")
        unruly = outages.Unruly(dsn, luck)
        try:
            outages.strike(readers, times, luck, blow)
            unruly.stop()
            stage.stop(publishers)
            readers.end()
        finally:
            unruly.stop()
            readers.kill()
        return outages.judged(dsn, readers)


class Archive:
    """`penstock pipeline archive` in a process group of its own, and the lake that it writes."""

    def __init__(self, dsn: str, folder: Path) -> None:
        self._dsn, self._folder = dsn, folder
        self._lake = folder / "lake"

    def start(self, *words: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "penstock.cli", "pipeline", "archive", TOPIC]
        with (self._folder / "archive.log").open("ab") as log:
            return subprocess.Popen(
                [*command, "--to", str(self._lake), *words],
                env={**os.environ, "PENSTOCK_DSN": self._dsn},
                start_new_session=True,
                stdout=log,
                stderr=log,
            )

    def rows(self) -> list[int]:
        """The numbers in the lake."""
        from deltalake import DeltaTable  # noqa: PLC0415 - of an extra

        if not DeltaTable.is_deltatable(str(self._lake)):
            return []
        table = DeltaTable(str(self._lake)).to_pyarrow_table(columns=["value"])
        return [int(value) for value in table["value"].to_pylist()]

    def forget(self) -> None:
        """What it has written it does not know any more."""
        shutil.rmtree(self._lake / "_penstock" / "state", ignore_errors=True)


def _harass(take: Take, stage: Stage, archive: Archive, kills: int) -> None:
    luck = take.luck
    for kill in range(kills):
        before = len(archive.rows())
        running = archive.start("--max-rows", str(ROWS))
        # Every other time before anything was written in this run, wherever it is by then.
        if kill % 2 == 0:
            _await_rows(archive, running, before)
        time.sleep(luck.uniform(0, 4 if kill % 2 == 0 else 12))
        # The driver with everything, or the Python workers alone, as an executor that dies.
        if kill % 5 == 4:
            _kill_workers(running)
            stage.fault("Spark's workers killed")
        os.killpg(running.pid, signal.SIGKILL)
        running.wait()
        stage.fault("stream killed")
        if take.sabotaged:
            archive.forget()
        take.say(f"{kill + 1} kills, {len(archive.rows())} rows")


def _await_rows(archive: Archive, running: subprocess.Popen[bytes], before: int) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while len(archive.rows()) == before:
        assert running.poll() is None, "the archive ended by itself: see archive.log"
        assert time.monotonic() < deadline, "the archive writes nothing"
        time.sleep(0.2)


def _kill_workers(running: subprocess.Popen[bytes]) -> None:
    for child in psutil.Process(running.pid).children(recursive=True):
        # Some end by themselves meanwhile.
        with suppress(psutil.Error):
            if "pyspark" in " ".join(child.cmdline()):
                child.kill()
    time.sleep(1)


def _outcome(stage: Stage, rows: list[int], kills: int) -> Outcome:
    steps = {step: {each.number for each in stage.entries() if each.step is step} for step in Step}
    found = {
        "lost": len(steps[Step.ACKED] - set(rows)),
        "unexpected": len(set(rows) - steps[Step.ATTEMPT]),
        "duplicated": sum(times > 1 for times in Counter(rows).values()),
    }
    counts = {
        "attempted": len(steps[Step.ATTEMPT]),
        "acked": len(steps[Step.ACKED]),
        "delivered": len(rows),
        **found,
        "stream kills": kills,
    }
    return Outcome(counts, {name: count for name, count in found.items() if count})


PART = Part(
    name="spark",
    promise="A Spark stream into a lake that is killed in the middle of its work loses nothing and "
    "writes nothing twice; nor when the server is killed. After a fail-over that lost a tail it "
    "loses nothing of what is there.",
    how="`penstock pipeline archive` into a Delta lake is killed 20 times, whole or only its "
    "Python workers, before, during and after its batches, while publishers go on. Then the server "
    "is killed 30 times while the archive and a stream into Parquet run, and 10 times a standby "
    "that lags is promoted; publishers commit, roll back and commit late.",
    sabotage="the archive forgets its state whenever it dies",
    breaks=frozenset({"duplicated"}),
    play=play,
    enough={"stream kills": 20, "acked": 2000, "server kills": 30, "promotions": 10},
)
