"""Sessions are terminated, refused, and led through a proxy that misbehaves in every way."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import psycopg

from prove.model import Outcome, Part
from prove.servers import mortal, terminate_backends
from prove.stage import staged
from tests.fixtures.proxy import Moment, Proxy, Way

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator

    from prove.model import Take
    from prove.stage import Stage

ACTORS = 2
MOST_CLIENTS = 80
SETTINGS = {
    "max_connections": str(MOST_CLIENTS),
    # What is half-open ends on the server's side too, as keep-alives would end it in time.
    "idle_session_timeout": "10s",
    "idle_in_transaction_session_timeout": "5s",
}
FAULTS = ("cut", "answer", "commit", "before commit", "delay", "drip", "swallow", "deaf", "half")


def play(take: Take) -> Outcome:
    with (
        mortal(**SETTINGS) as server,
        Proxy(server.database) as proxy,
        staged(server.dsn(), take.folder) as stage,
    ):
        words = ["--lanes", "3", "--own", "--pause", "0.005", "--answer", "2"]
        # The twin says everything again under no key.
        words += ["--sabotage", "repeat"] if take.sabotaged else ["--dedupe"]
        publishers = stage.publishers(ACTORS, *words, dsn=proxy.dsn)
        workers = stage.workers(ACTORS, "--pause", "0.01", dsn=proxy.dsn)
        workers += stage.rivals(1, dsn=proxy.dsn)
        counts = _disturb(take, stage, proxy)
        stage.close(publishers, workers)
        verdict = stage.verdict()
    broken = dict(verdict.broken)
    if verdict.stored_twice:
        broken["stored twice"] = len(verdict.stored_twice)
    return Outcome({**verdict.counts, **counts, **stage.slices}, broken)


def _disturb(take: Take, stage: Stage, proxy: Proxy) -> dict[str, int]:
    luck = take.luck
    terminations = crowds = misbehaviours = 0
    with psycopg.connect(stage.dsn, autocommit=True) as db:
        for _ in _until(take.size(full=180, quick=3, twin=20)):
            terminations += terminate_backends(db)
            stage.fault("sessions terminated")
            time.sleep(0.2)
        take.say(f"{terminations} sessions terminated")
        for _ in _until(take.size(full=30, quick=3, twin=5)):
            _crowd(stage, db)
            crowds += 1
        take.say(f"too many clients {crowds} times")
        for _ in _until(take.size(full=150, quick=6, twin=45)):
            _misbehave(stage, proxy, luck)
            misbehaviours += 1
    take.say(f"the network misbehaved {misbehaviours} times")
    return {
        "sessions terminated": terminations,
        "too many clients": crowds,
        "network faults": misbehaviours,
    }


def _until(seconds: float) -> Iterator[None]:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        yield


def _crowd(stage: Stage, db: psycopg.Connection[Any]) -> None:
    """Take every place on the server, and send away whoever had one."""
    crowd: list[psycopg.Connection[Any]] = []
    try:
        terminate_backends(db)
        with suppress(psycopg.OperationalError):
            while len(crowd) < MOST_CLIENTS:
                crowd.append(psycopg.connect(stage.dsn, autocommit=True))
        stage.fault("too many clients")
        time.sleep(1.5)
    finally:
        for conn in crowd:
            conn.close()
    time.sleep(1.5)


def _misbehave(stage: Stage, proxy: Proxy, luck: random.Random) -> None:
    """One fault for a moment, then none."""
    fault = luck.choice(FAULTS)
    stage.fault(fault)
    match fault:
        case "cut":
            proxy.cut()
        case "answer":
            proxy.cut_at(b"publish_message", Moment.AFTER)
        case "commit":
            proxy.cut_at(b"commit", Moment.AFTER)
        case "before commit":
            proxy.cut_at(b"commit", Moment.BEFORE)
        case "delay":
            proxy.delay = 0.05
        case "drip":
            proxy.drip = 16
        case "swallow":
            proxy.swallowed = Way.TO_SERVER
        case "deaf":
            proxy.swallowed = Way.TO_CLIENT
        case "half":
            proxy.half_open()
    time.sleep(luck.uniform(0.1, 0.5))
    # What was swallowed is gone, and whoever waits for an answer on such a connection gives it up.
    proxy.heal()
    time.sleep(luck.uniform(0.1, 0.5))


PART = Part(
    name="connections",
    promise="Whatever happens to connections, nothing acknowledged is lost, and under a dedupe key "
    "nothing is stored twice.",
    how="Every session is terminated 5 times a second for 3 minutes; the server has no place left "
    "for a session; then a proxy delays, drips, cuts at the answer, before and in the middle of "
    "COMMIT, swallows one direction, and leaves connections half-open.",
    sabotage="publishers repeat what they are unsure of without a dedupe key",
    breaks=frozenset({"stored twice"}),
    play=play,
    enough={"sessions terminated": 900, "acked": 1000, "slices cut": 1000},
)
