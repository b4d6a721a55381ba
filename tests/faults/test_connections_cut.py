"""Sessions are terminated five times a second, and a proxy misbehaves in every way it knows."""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING

import psycopg
import pytest

from tests.faults.stage import Stage, mortal, terminate_backends
from tests.fixtures.proxy import Moment, Proxy, Way

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.faults.checker import Verdict
    from tests.faults.stage import Mortal

pytestmark = [pytest.mark.prove, pytest.mark.timeout(900)]
SECONDS = 60.0


@pytest.fixture
def breakable() -> Iterator[Mortal]:
    with mortal() as server:
        yield server


@pytest.fixture
def stage(breakable: Mortal, tmp_path: Path) -> Iterator[Stage]:
    stage = Stage(breakable.dsn(), tmp_path)
    yield stage
    stage.end()


def played(
    stage: Stage,
    disturb: Callable[[], None],
    *,
    seconds: float = SECONDS,
    dsn: str | None = None,
    sabotage: tuple[str, ...] = (),
    dedupe: bool = False,
) -> Verdict:
    words = ("--pause", "0.002", *sabotage, *(["--dedupe"] if dedupe else []))
    publishers = [
        stage.start("publish", "--first", str(first), *words, dsn=dsn) for first in (0, 10_000_000)
    ]
    workers = [stage.start("work", "--pause", "0.01", dsn=dsn) for _ in range(2)]
    stage.await_publishing(2)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        disturb()
    assert stage.stop(publishers) == [0, 0]
    stage.await_drained()
    assert all(worker.poll() is None for worker in workers), "a worker left by itself"
    assert stage.stop(workers) == [0, 0]
    return stage.verdict()


@pytest.fixture
def terminate(stage: Stage) -> Iterator[Callable[[], None]]:
    with psycopg.connect(stage.dsn, autocommit=True) as db:

        def disturb() -> None:
            terminate_backends(db)
            time.sleep(0.2)

        yield disturb


def test_terminated_sessions_lose_and_invent_nothing(
    stage: Stage, terminate: Callable[[], None]
) -> None:
    verdict = played(stage, terminate)
    print(f"\nsessions terminated for {SECONDS:.0f} s: {verdict}")
    assert verdict.kept, verdict
    assert verdict.acknowledged > 100


def test_publisher_that_takes_errors_for_success_is_caught(
    stage: Stage, terminate: Callable[[], None]
) -> None:
    verdict = played(stage, terminate, seconds=30, sabotage=("--sabotage", "believe"))
    print(f"\nsabotaged: {verdict}")
    assert verdict.lost


@pytest.fixture
def proxy(breakable: Mortal) -> Iterator[Proxy]:
    with Proxy(breakable.database) as proxy:
        yield proxy


def misbehave(proxy: Proxy, luck: random.Random) -> None:
    """One fault for a moment, then none."""
    match luck.choice(["cut", "commit", "delay", "drip", "swallow", "deaf", "refuse"]):
        case "cut":
            proxy.cut()
        case "commit":
            proxy.cut_at(b"publish_message", Moment.AFTER)
        case "delay":
            proxy.delay = 0.05
        case "drip":
            proxy.drip = 16
        case "swallow":
            proxy.swallowed = Way.TO_SERVER
        case "deaf":
            proxy.swallowed = Way.TO_CLIENT
        case "refuse":
            proxy.refusing = True
            proxy.cut()
    time.sleep(luck.uniform(0.1, 0.5))
    # What was swallowed is gone, and whoever waits for an answer on such a connection gives it up.
    proxy.heal()
    time.sleep(luck.uniform(0.1, 0.5))


def test_network_that_misbehaves_stores_nothing_twice_under_a_dedupe_key(
    stage: Stage, proxy: Proxy
) -> None:
    luck = random.Random(7)
    verdict = played(stage, lambda: misbehave(proxy, luck), dsn=proxy.dsn, dedupe=True)
    print(f"\nthrough a misbehaving proxy for {SECONDS:.0f} s: {verdict}")
    assert verdict.kept, verdict
    assert not verdict.stored_twice
    assert verdict.acknowledged > 100


def test_publisher_that_repeats_without_a_dedupe_key_is_caught(stage: Stage, proxy: Proxy) -> None:
    luck = random.Random(7)
    verdict = played(
        stage,
        lambda: misbehave(proxy, luck),
        dsn=proxy.dsn,
        seconds=30,
        sabotage=("--sabotage", "repeat"),
    )
    print(f"\nsabotaged: {verdict}")
    assert verdict.stored_twice
