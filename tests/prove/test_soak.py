"""A long run of one worker: its memory stays flat, and it leaves nothing open behind it.

PENSTOCK_SOAK_MESSAGES is the number of messages, a million unless told otherwise.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from contextlib import contextmanager
from statistics import median
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

import penstock.sync
from prove.actors.soaker import NAME, QUEUE
from prove.recorder import ROOT
from prove.servers import mortal

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.prove, pytest.mark.timeout(1800)]
MESSAGES = int(os.environ.get("PENSTOCK_SOAK_MESSAGES", "1000000"))
LEAKY_MESSAGES = 100_000
# Pools, prepared statements, the allocator's own reserves: all there after a fifth of the run.
WARM_UP = 0.2
# Of the memory after warm-up.  What one message leaves behind shows far sooner.
MOST_GROWTH = 0.1
PATIENCE_SECONDS = 1200.0


@pytest.fixture
def dsn() -> Iterator[str]:
    with mortal() as server:
        with penstock.sync.connect(server.dsn()) as mq:
            mq.create_queue(QUEUE)
        yield server.dsn()


@contextmanager
def soaking(dsn: str, *words: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-W", "error", "-m", "prove.actors.soaker", "--dsn", dsn, *words]
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as worker:
        try:
            yield worker
        finally:
            if worker.poll() is None:
                worker.kill()


def soaked(dsn: str, messages: int, *words: str) -> dict[str, Any]:
    """Publish a stream, have it handled, and return what the worker and the server saw."""
    with soaking(dsn, *words) as worker, penstock.sync.connect(dsn) as mq:
        assert mq.publish_stream(QUEUE, ({"order": n} for n in range(messages))) == messages
        deadline = time.monotonic() + PATIENCE_SECONDS
        while mq.queue_statistics(QUEUE).completed_count < messages:
            assert time.monotonic() < deadline, "the queue is never empty"
            assert worker.poll() is None, "the worker left"
            time.sleep(0.5)
        worker.terminate()
        assert worker.stdout is not None
        found: dict[str, Any] = json.loads(worker.stdout.readline())
        found["sessions"] = sessions(dsn)
        worker.communicate()
        assert worker.returncode == 0
    return found


def sessions(dsn: str) -> int:
    """The worker's sessions on the server, which ends them a moment after they are closed."""
    left = -1
    with psycopg.connect(dsn, autocommit=True) as db:
        for _ in range(100):
            statement = "select count(*) from pg_stat_activity where application_name = %s"
            row = db.execute(statement, (NAME,)).fetchone()
            assert row is not None
            left = row[0]
            if left == 0:
                break
            time.sleep(0.05)
    return left


def growth(samples: list[tuple[int, int]], messages: int) -> float:
    """By how much the later half of the run needs more memory than the earlier, without warm-up."""
    middle = (WARM_UP + 1) / 2 * messages
    earlier = [memory for acked, memory in samples if WARM_UP * messages <= acked < middle]
    later = [memory for acked, memory in samples if middle <= acked]
    assert len(earlier) >= 5, "too few samples: take more messages"
    assert len(later) >= 5, "too few samples: take more messages"
    return median(later) / median(earlier) - 1


def test_memory_stays_flat_and_nothing_is_left_open(dsn: str) -> None:
    found = soaked(dsn, MESSAGES)
    grown = growth(found["samples"], MESSAGES)
    first, last = found["samples"][0][1], found["samples"][-1][1]
    print(
        f"\n{MESSAGES:,} messages: {first / 2**20:.1f} MB at the start, {last / 2**20:.1f} MB at "
        f"the end, {grown:+.2%} from the earlier half to the later"
    )
    assert found["acked"] == MESSAGES
    assert grown < MOST_GROWTH
    assert found["tasks"] == []
    assert found["threads"] == ["MainThread"]
    assert (found["sockets"], found["sessions"]) == (0, 0)


def test_a_worker_that_keeps_its_messages_is_caught(dsn: str) -> None:
    found = soaked(dsn, LEAKY_MESSAGES, "--hoard")
    grown = growth(found["samples"], LEAKY_MESSAGES)
    print(f"\nwith a planted leak: {grown:+.2%}")
    assert grown > MOST_GROWTH
