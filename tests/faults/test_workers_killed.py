"""Workers die by SIGKILL, again and again: others go on with what they held."""

from __future__ import annotations

import random
import signal
import time
from typing import TYPE_CHECKING

import pytest

from tests.faults.stage import Stage, mortal

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.faults.checker import Verdict

pytestmark = [pytest.mark.prove, pytest.mark.timeout(900)]
KILLS = 50
WORKERS = 4


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    with mortal() as server:
        stage = Stage(server.dsn(), tmp_path)
        yield stage
        stage.end()


def played(stage: Stage, *, kills: int, sabotage: tuple[str, ...] = ()) -> Verdict:
    luck = random.Random(20)
    publishers = [
        stage.start("publish", "--first", str(first), "--pause", "0.002")
        for first in (0, 10_000_000)
    ]
    words = ("--pause", "0.05", *sabotage)
    workers = [stage.start("work", *words) for _ in range(WORKERS)]
    for _ in range(kills):
        time.sleep(luck.uniform(0.3, 0.8))
        victim = luck.randrange(WORKERS)
        workers[victim].kill()
        workers[victim].wait()
        workers[victim] = stage.start("work", *words)
    assert stage.stop(publishers) == [0, 0]
    stage.await_drained()
    assert all(worker.poll() is None for worker in workers), "a worker left by itself"
    # The youngest may not have got as far as to mind signals.
    assert {0, -signal.SIGTERM} >= set(stage.stop(workers))
    return stage.verdict()


def test_workers_killed_lose_and_invent_nothing(stage: Stage) -> None:
    verdict = played(stage, kills=KILLS)
    print(f"\n{KILLS} workers killed: {verdict}")
    assert verdict.kept, verdict
    assert verdict.acknowledged > 1000
    assert verdict.duplicated > 0 or verdict.delivered == verdict.acknowledged


def test_worker_that_acks_too_early_is_caught(stage: Stage) -> None:
    verdict = played(stage, kills=10, sabotage=("--sabotage", "early"))
    print(f"\nsabotaged: {verdict}")
    assert verdict.lost
