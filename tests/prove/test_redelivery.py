"""What a killed worker held is with another a second after the end of the claim, at most.

The others have nothing to do meanwhile, so nobody finds it by chance: they sleep, and have to be
awake at that moment.
"""

from __future__ import annotations

import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

import penstock.sync
from prove.actors.names import TOPIC
from prove.servers import mortal
from prove.stage import Stage, staged

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from prove.punctuality import Punctuality

pytestmark = [pytest.mark.prove, pytest.mark.timeout(900)]
KILLS = 12
WORKERS = 3
BURST = 40
ALLOWED = timedelta(seconds=1)
# A handler takes far less than half of a claim, or its worker would extend what it has.
CLAIM = timedelta(seconds=6)
PAUSE = timedelta(seconds=0.3)


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    with mortal() as server, staged(server.dsn(), tmp_path) as stage:
        yield stage


def played(stage: Stage, *, kills: int, sabotage: tuple[str, ...] = ()) -> Punctuality:
    times = ("--pause", str(PAUSE.total_seconds()), "--claim", str(CLAIM.total_seconds()))
    words = (*times, *sabotage)
    begun = [stage.start("work", *words) for _ in range(WORKERS)]
    workers = {worker.pid: worker for worker in begun}
    with psycopg.connect(stage.dsn, autocommit=True) as db, penstock.sync.connect(stage.dsn) as mq:
        for burst in range(kills):
            mq.publish_many(TOPIC, list(range(burst * BURST, (burst + 1) * BURST)))
            victim = workers.pop(holder(db))
            victim.kill()
            victim.wait()
            stage.await_drained()
            worker = stage.start("work", *words)
            workers[worker.pid] = worker
    return stage.punctuality(claim=CLAIM, allowed=ALLOWED)


def holder(db: psycopg.Connection[Any]) -> int:
    """The process of a worker that holds something: its name is in the claim's token."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        row = db.execute("select token from penstock_data.claims order by random()").fetchone()
        if row is not None:
            return int(row[0].partition(":")[0].rpartition("-")[2])
        time.sleep(0.005)
    raise AssertionError("nothing is claimed")


def test_redelivery_comes_a_second_after_the_end_of_a_claim_at_most(stage: Stage) -> None:
    found = played(stage, kills=KILLS)
    print(f"\n{KILLS} workers killed amid sleepers: {found}")
    assert found.redelivered >= KILLS // 2
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
