"""A worker under most of the load that it can bear, for long: nothing grows."""

from __future__ import annotations

import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import astuple, dataclass
from statistics import median
from typing import TYPE_CHECKING, Any

import psutil
import psycopg

import penstock.sync
from prove.actors.soaker import NAME, QUEUE
from prove.model import Outcome, Part
from prove.recorder import ROOT
from prove.servers import mortal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prove.model import Take

SETTINGS = {"autovacuum": "on", "autovacuum_naptime": "10s"}
LOAD = 0.7
BATCH = 50
SAMPLE_SECONDS = 2.0
# How much more the last third of the run may need than the second; the first warms up.
GROWTH = {"memory": 0.1, "descriptors": 0.1, "connections": 0.1, "dead rows": 1.0}
# Differences below these mean nothing.
TRIFLES = {"memory": 2**20, "descriptors": 2, "connections": 2, "dead rows": 20_000}


@dataclass(frozen=True, slots=True)
class Sample:
    memory: int
    descriptors: int
    connections: int
    dead_rows: int


def play(take: Take) -> Outcome:
    seconds = take.size(full=520, quick=12, twin=60)
    with mortal(**SETTINGS) as server, penstock.sync.connect(server.dsn()) as mq:
        mq.create_queue(QUEUE)
        with _working(server.dsn(), hoard=take.sabotaged) as worker:
            capacity = _capacity(mq, take.size(full=20, quick=2))
            take.say(f"can do {capacity:.0f} messages a second")
            before = mq.queue_statistics(QUEUE).completed_count
            samples = _soak(mq, server.dsn(), worker, LOAD * capacity, seconds)
            handled = mq.queue_statistics(QUEUE).completed_count - before
    return _outcome(samples, capacity, seconds, handled)


@contextmanager
def _working(dsn: str, *, hoard: bool) -> Iterator[psutil.Process]:
    command = [sys.executable, "-m", "prove.actors.soaker", "--dsn", dsn]
    command += ["--hoard"] if hoard else []
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL
    ) as process:
        try:
            yield psutil.Process(process.pid)
        finally:
            process.kill()


def _capacity(mq: penstock.sync.Client, seconds: float) -> float:
    """Messages a second that publisher, server and worker together get through."""
    mq.publish_many(QUEUE, [{"order": -1}])
    _await(mq, 1)
    begun = time.monotonic()
    published = 0
    while time.monotonic() < begun + seconds:
        published += _publish(mq, published)
    _await(mq, 1 + published)
    return published / (time.monotonic() - begun)


def _publish(mq: penstock.sync.Client, first: int) -> int:
    return len(mq.publish_many(QUEUE, [{"order": first + n} for n in range(BATCH)]))


def _await(mq: penstock.sync.Client, completed: int) -> None:
    deadline = time.monotonic() + 180
    while mq.queue_statistics(QUEUE).completed_count < completed:
        assert time.monotonic() < deadline, "the worker does not get on"
        time.sleep(0.1)


def _soak(
    mq: penstock.sync.Client, dsn: str, worker: psutil.Process, rate: float, seconds: float
) -> list[Sample]:
    samples: list[Sample] = []
    begun = sampled = time.monotonic()
    published = 0
    with psycopg.connect(dsn, autocommit=True) as db:
        while (past := time.monotonic() - begun) < seconds:
            while published < past * rate:
                published += _publish(mq, published)
            if time.monotonic() - sampled >= SAMPLE_SECONDS:
                samples.append(_sample(db, worker))
                sampled = time.monotonic()
            time.sleep(0.01)
    return samples


def _sample(db: psycopg.Connection[Any], worker: psutil.Process) -> Sample:
    row = db.execute(
        "select (select count(*) from pg_stat_activity where application_name = %s), "
        "(select sum(n_dead_tup) from pg_stat_user_tables where schemaname = 'penstock_data')",
        (NAME,),
    ).fetchone()
    assert row is not None
    return Sample(worker.memory_info().rss, worker.num_fds(), row[0], int(row[1]))


def _outcome(samples: list[Sample], capacity: float, seconds: int, handled: int) -> Outcome:
    third = len(samples) // 3
    counts: dict[str, int | float] = {
        "consumed": handled,
        "seconds": seconds,
        "messages per second, at most": capacity,
        "messages per second": handled / seconds,
    }
    broken: dict[str, int] = {}
    columns = zip(GROWTH, *map(astuple, samples), strict=True)
    for name, *values in columns:
        earlier, later = median(values[third : 2 * third]), median(values[2 * third :])
        counts[f"{name}, second third"], counts[f"{name}, last third"] = earlier, later
        if later - earlier > max(GROWTH[name] * earlier, TRIFLES[name]):
            broken[f"{name} grew"] = 1
    return Outcome(counts, broken)


PART = Part(
    name="soak",
    promise="Under 70 % of the load that it can bear, a worker's memory, descriptors and "
    "connections stay flat, and so do the engine's dead rows.",
    how="What publisher, server and worker get through together is measured; then they get 70 % of "
    "it for almost 9 minutes, and the last third of the run is compared with the second.",
    sabotage="the worker keeps every message that it has handled",
    breaks=frozenset({"memory grew"}),
    play=play,
    enough={"seconds": 500, "consumed": 100_000},
)
