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
            capacity = _capacity(mq, take.size(full=20_000, quick=2000))
            take.say(f"can do {capacity:.0f} messages a second")
            samples = _soak(mq, server.dsn(), worker, LOAD * capacity, seconds)
            statistics = mq.queue_statistics(QUEUE)
    return _outcome(samples, capacity, seconds, statistics.completed_count)


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


def _capacity(mq: penstock.sync.Client, messages: int) -> float:
    """Messages a second that the worker handles when it need not wait for any."""
    mq.publish_many(QUEUE, [{"order": -1}])
    _await(mq, 1)
    mq.publish_stream(QUEUE, ({"order": number} for number in range(messages)))
    begun = time.monotonic()
    _await(mq, 1 + messages)
    return messages / (time.monotonic() - begun)


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
                mq.publish_many(QUEUE, [{"order": published + n} for n in range(BATCH)])
                published += BATCH
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


def _outcome(samples: list[Sample], capacity: float, seconds: int, completed: int) -> Outcome:
    third = len(samples) // 3
    counts: dict[str, int | float] = {
        "consumed": completed,
        "seconds": seconds,
        "messages per second": LOAD * capacity,
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
    how="The worker's capacity is measured, then it gets 70 % of that for almost 9 minutes; the "
    "last third of the run is compared with the second.",
    sabotage="the worker keeps every message that it has handled",
    breaks=frozenset({"memory grew"}),
    play=play,
    enough={"seconds": 500, "consumed": 100_000},
)
