"""Exactly once, by count: drivers and executors killed, tasks failing, publishers out of order.

Failing tasks, lost commit-log entries and unruly publishers run with every change, here and in
test_streams.py and test_stream_reader.py; `make long-tests` kills drivers and executors, twenty
times each.  The sabotaged twins show that the count would notice.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from prove.processes import kill_family
from tests.fixtures.patience import eventually_sync
from tests.spark.cluster import environment, executors, standalone
from tests.spark.publishers import Publishers
from tests.sql.test_streams import publish

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.fixtures.databases import Database
    from tests.spark.jobs import Jobs

# For a short look: PENSTOCK_TEST_KILLS=2 pytest -m prove tests/spark/test_faults.py
DRIVERS = EXECUTORS = int(os.environ.get("PENSTOCK_TEST_KILLS", "20"))


@pytest.fixture(autouse=True)
def topics(db: Any) -> None:
    for name in ("orders", "copies"):
        db.execute("select penstock.create_topic(%s)", (name,))


def copies(db: Any) -> Counter[int]:
    found = db.execute("select payload from penstock.log where topic = 'copies'")
    return Counter(payload for (payload,) in found)


def copied(db: Any) -> int:
    return int(db.execute("select count(*) from penstock.log where topic = 'copies'").fetchone()[0])


class Copier:
    """The program under fire."""

    def __init__(self, url: str, folder: Path, master: str = "local[2]") -> None:
        self._words = [sys.executable, "-m", "tests.spark.copier", url, str(folder), master]
        self._log = (folder / "copier.log").open("ab")
        self.start()

    def start(self) -> None:
        self._process = subprocess.Popen(
            self._words,
            stdout=self._log,
            stderr=self._log,
            env=environment(),
            start_new_session=True,
        )

    def kill(self) -> None:
        """Driver, Java and Python workers, all at once."""
        kill_family(self._process)

    def is_running(self) -> bool:
        return self._process.poll() is None

    def wait(self) -> int:
        code = self._process.wait(600)
        self._log.close()
        return code


def under_fire(
    database: Database,
    db: Any,
    folder: Path,
    strike: Callable[[Copier], None],
    *,
    strikes: int,
    master: str = "local[2]",
) -> tuple[Counter[int], set[int]]:
    """Copy while publishers publish and something is struck; what arrived, and what was sent."""
    luck = random.Random(7)
    publishers = Publishers(database.tcp_dsn)
    publishers.start(pause=0.1)
    copier = Copier(database.tcp_dsn, folder, master)
    try:
        for _ in range(strikes):
            before = copied(db)
            eventually_sync_for(lambda before=before: copied(db) > before, 300)
            time.sleep(luck.uniform(0, 1.5))
            strike(copier)
        sent = publishers.stop()
        (folder / "enough").touch()
        assert copier.wait() == 0, (folder / "copier.log").read_text()[-3000:]
        return copies(db), sent
    finally:
        publishers.stop()
        if copier.is_running():
            copier.kill()


def eventually_sync_for(condition: Callable[[], object], seconds: float) -> None:
    """As eventually_sync, for what takes a cluster its time."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it never came to be"
        time.sleep(0.02)


def kill_driver(copier: Copier) -> None:
    copier.kill()
    copier.start()


def kill_executor(copier: Copier) -> None:
    assert copier.is_running()
    eventually_sync(executors)
    random.choice(executors()).kill()


def judged(arrived: Counter[int], sent: set[int]) -> dict[str, int]:
    return {
        "sent": len(sent),
        "lost": len(sent - arrived.keys()),
        "doubled": sum(count - 1 for count in arrived.values()),
        "invented": len(arrived.keys() - sent),
    }


@pytest.mark.prove
@pytest.mark.timeout(3600)
def test_drivers_killed_again_and_again(database: Database, db: Any, tmp_path: Path) -> None:
    verdict = judged(*under_fire(database, db, tmp_path, kill_driver, strikes=DRIVERS))
    print(f"\n{DRIVERS} drivers killed: {verdict}")
    assert verdict == {"sent": verdict["sent"], "lost": 0, "doubled": 0, "invented": 0}


@pytest.mark.prove
@pytest.mark.timeout(3600)
def test_executors_killed_again_and_again(database: Database, db: Any, tmp_path: Path) -> None:
    with standalone(tmp_path) as master:
        verdict = judged(
            *under_fire(database, db, tmp_path, kill_executor, strikes=EXECUTORS, master=master)
        )
    print(f"\n{EXECUTORS} executors killed: {verdict}")
    assert verdict == {"sent": verdict["sent"], "lost": 0, "doubled": 0, "invented": 0}


def test_at_least_once_doubles_what_a_failed_batch_had_published(jobs: Jobs, db: Any) -> None:
    """The sabotaged twin of the stage and its ledger: the count notices."""
    from pyspark.sql.functions import udf

    publish(db, "orders", *range(8))
    broken = jobs.folder / "broken"
    broken.touch()

    def check(value):  # type: ignore[no-untyped-def]  # Spark would read types
        if value == "7" and broken.exists():
            # The other task has published by then.
            import time as clock

            clock.sleep(2)
            raise RuntimeError("the last row")
        return value

    frame = jobs.stream(
        subscribe="orders", startingOffsets="earliest", maxRecordsPerPartition=4
    ).select(udf(check, "string")("value").alias("value"))
    with pytest.raises(Exception, match="the last row"):
        jobs.copy(frame, "one", topic="copies", delivery="at-least-once")
    broken.unlink()
    jobs.copy(frame, "one", topic="copies", delivery="at-least-once")
    assert judged(copies(db), set(range(8)))["doubled"] > 0


def test_an_offset_of_the_highest_id_loses_what_commits_late(database: Database, db: Any) -> None:
    """The sabotaged twin of snapshot offsets, as a hand-made poll loop reads."""
    publishers = Publishers(database.tcp_dsn)
    publishers.start(pause=0.02)
    last, seen = 0, Counter[int]()

    def poll() -> None:
        nonlocal last
        rows = db.execute(
            "select id, payload from penstock.log where topic = 'orders' and id > %s", (last,)
        ).fetchall()
        last = max([last, *(number for number, _payload in rows)])
        seen.update(payload for _number, payload in rows)

    stop = time.monotonic() + 1.5
    while time.monotonic() < stop or not publishers.done:
        poll()
    sent = publishers.stop()
    poll()
    assert judged(seen, sent)["lost"] > 0
