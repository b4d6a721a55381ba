"""The whole server dies by SIGKILL and comes back."""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING

import pytest

from tests.faults.stage import Mortal, Stage, mortal

if TYPE_CHECKING:
    from pathlib import Path

    from tests.faults.checker import Verdict

pytestmark = [pytest.mark.prove, pytest.mark.timeout(900)]
KILLS = 10


def played(server: Mortal, stage: Stage, *, kills: int) -> Verdict:
    luck = random.Random(3)
    publishers = [
        stage.start("publish", "--first", str(number * 10_000_000)) for number in range(4)
    ]
    workers = [stage.start("work") for _ in range(2)]
    stage.await_publishing(4)
    try:
        for _ in range(kills):
            time.sleep(luck.uniform(2, 4))
            server.kill()
            server.start()
        time.sleep(2)
        assert stage.stop(publishers) == [0] * 4
        stage.await_drained()
        assert all(worker.poll() is None for worker in workers), "a worker left by itself"
        assert stage.stop(workers) == [0, 0]
        return stage.verdict(crashes=kills)
    finally:
        stage.end()


def test_killed_server_loses_and_invents_nothing(tmp_path: Path) -> None:
    with mortal() as server:
        verdict = played(server, Stage(server.dsn(), tmp_path), kills=KILLS)
    print(f"\nserver killed {KILLS} times: {verdict}")
    assert verdict.kept, verdict
    assert verdict.acknowledged > 1000


def test_server_that_does_not_wait_for_its_log_is_caught(tmp_path: Path) -> None:
    with mortal(synchronous_commit="off", wal_writer_delay="10s") as server:
        verdict = played(server, Stage(server.dsn(), tmp_path), kills=5)
    print(f"\nsabotaged: {verdict}")
    assert verdict.lost
