"""What a killed worker held is with another a second after the end of the claim, at most.

The others have nothing to do meanwhile, so nobody finds it by chance: they sleep, and have to be
awake at that moment.
"""

from __future__ import annotations

import random
import time
from datetime import timedelta
from typing import TYPE_CHECKING

import psycopg
import pytest

import penstock.sync
from tests.faults.actors import QUEUE, TOPIC
from tests.faults.stage import Stage, mortal

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.faults.checker import Punctuality

pytestmark = [pytest.mark.prove, pytest.mark.timeout(900)]
KILLS = 15
WORKERS = 3
BURST = 60
ALLOWED = timedelta(seconds=1)
# A worker's slots, and what may wait for one.
MOST_HELD = 14
# Shorter than half of a claim, or a worker would extend what it has.
PAUSE = "0.3"


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    with mortal() as server:
        stage = Stage(server.dsn(), tmp_path)
        yield stage
        stage.end()


def played(stage: Stage, *, kills: int, sabotage: tuple[str, ...] = ()) -> Punctuality:
    luck = random.Random(5)
    words = ("--pause", PAUSE, *sabotage)
    workers = [stage.start("work", *words) for _ in range(WORKERS)]
    with penstock.sync.connect(stage.dsn) as mq:
        for burst in range(kills):
            mq.publish_many(TOPIC, list(range(burst * BURST, (burst + 1) * BURST)))
            await_claims(mq)
            victim = luck.randrange(WORKERS)
            workers[victim].kill()
            workers[victim].wait()
            stage.await_drained()
            workers[victim] = stage.start("work", *words)
    return stage.punctuality(allowed=ALLOWED)


def await_claims(mq: penstock.sync.Client) -> None:
    """Until every worker must have something in its hands: no two can hold as much."""
    deadline = time.monotonic() + 60
    while mq.queue_statistics(QUEUE).processing_count <= 2 * MOST_HELD:
        assert time.monotonic() < deadline, "nothing is claimed"
        time.sleep(0.01)


def test_redelivery_comes_a_second_after_the_end_of_a_claim_at_most(stage: Stage) -> None:
    found = played(stage, kills=KILLS)
    print(f"\n{KILLS} workers killed amid sleepers: {found}")
    assert found.redelivered >= KILLS
    assert not found.late, found


def test_workers_that_sleep_on_are_caught(stage: Stage) -> None:
    with psycopg.connect(stage.dsn, autocommit=True) as db:
        # Nobody is told when a claim ends.
        db.execute(
            "create or replace function penstock.get_next_visible_time(queue_name text) "
            "returns timestamptz language sql as $$ select null::timestamptz $$"
        )
    found = played(stage, kills=3, sabotage=("--sabotage", "oversleep"))
    print(f"\nsabotaged: {found}")
    assert found.late
