"""The vacuum horizon is held, by everything that can hold it, for as long as the run lasts."""

from __future__ import annotations

import subprocess
import time
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import psycopg

from bench.disturbances import held_snapshot, open_writer
from bench.model import Case
from bench.peers import penstock_sql, textbook
from penstock.testing import server as servers
from prove.model import Outcome, Part
from prove.servers import Mortal, mortal
from prove.steady import Steady

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from prove.model import Take
    from prove.steady import Window

RATE = 800
CONSUMERS = 4
SLOT = "abandoned"
LEAST_THROUGHPUT = 0.95
MOST_P99 = 2.0
MOST_RECOVERY_SECONDS = 30
# The last stretch of the held time is compared with the fresh one.
COMPARED_SECONDS = 30
PATIENCE_SECONDS = 60
SETTINGS = {"autovacuum": "on", "autovacuum_naptime": "5s", "checkpoint_timeout": "2min"}


def play(take: Take) -> Outcome:
    fresh_seconds = take.size(full=30, quick=4)
    held_seconds = take.size(full=450, quick=6, twin=70)
    with mortal(**SETTINGS) as server:
        contestant = textbook.inline() if take.sabotaged else penstock_sql.relaxed()
        if take.sabotaged:
            for file in textbook.inline().files:
                server.database.psql("-f", str(file))
        sessions = [contestant.open(server.dsn(), Case("steady")) for _ in range(1 + CONSUMERS)]
        try:
            with Steady(sessions[0], sessions[1:], rate=RATE) as load:
                # Plans and caches are made.
                time.sleep(fresh_seconds / 4)
                fresh = _watch(load, fresh_seconds)
                take.say(f"fresh: {fresh}")
                with _held(server, take.folder):
                    time.sleep(max(held_seconds - COMPARED_SECONDS, 0))
                    held = _watch(load, min(COMPARED_SECONDS, held_seconds))
                    take.say(f"held for {held_seconds} s: {held}")
                recovery = _recovery(load, fresh)
            slices = _cut(server)
        finally:
            for session in sessions:
                session.close()
    outcome = _outcome(load, fresh, held, recovery, held_seconds)
    return replace(outcome, counts={**outcome.counts, "slices cut": slices})


def _watch(load: Steady, seconds: float) -> Window:
    begun = time.monotonic()
    time.sleep(seconds)
    return load.window(begun, begun + seconds)


def _cut(server: Mortal) -> int:
    with psycopg.connect(server.dsn()) as db:
        found = db.execute("select pg_sequence_last_value('penstock_data.slice')").fetchone()
    assert found is not None
    return found[0] or 0


def _recovery(load: Steady, fresh: Window) -> float:
    """Seconds until a second is served as it was when everything was fresh."""
    released = time.monotonic()
    while (past := time.monotonic() - released) < 2 * MOST_RECOVERY_SECONDS:
        now = _watch(load, 2)
        if now.p99_ms <= MOST_P99 * fresh.p99_ms and load.behind < RATE:
            return past
    return past


def _outcome(load: Steady, fresh: Window, held: Window, recovery: float, seconds: int) -> Outcome:
    throughput = held.messages_per_second / fresh.messages_per_second
    slower = held.p99_ms / fresh.p99_ms
    broken = {
        "throughput below 0.95 of fresh": throughput < LEAST_THROUGHPUT,
        "p99 of a claim above twice fresh": slower > MOST_P99,
        "recovery above 30 s": recovery > MOST_RECOVERY_SECONDS,
    }
    counts = {
        "published": load.published,
        "consumed": load.consumed,
        "seconds held": seconds,
        "messages per second, fresh": fresh.messages_per_second,
        "messages per second, held": held.messages_per_second,
        "throughput, held / fresh": throughput,
        "p99 of a claim, fresh, ms": fresh.p99_ms,
        "p99 of a claim, held, ms": held.p99_ms,
        "p99, held / fresh": slower,
        "recovery, s": recovery,
    }
    return Outcome(counts, {name: 1 for name, found in broken.items() if found})


@contextmanager
def _held(server: Mortal, folder: Path) -> Iterator[None]:
    with ExitStack() as held:
        held.enter_context(held_snapshot(server.dsn()))
        held.enter_context(open_writer(server.dsn()))
        held.enter_context(_abandoned_slot(server, folder / "standby"))
        yield


@contextmanager
def _abandoned_slot(server: Mortal, place: Path) -> Iterator[None]:
    """The slot of a standby that had told what it needs, and then died."""
    place.mkdir()
    server.owner.own(place)
    address = ["--host", str(server.folder), "--port", str(server.port)]
    words = ["--username", servers.USER, "--pgdata", str(place / "data"), "--checkpoint=fast"]
    subprocess.run(
        [
            server.binaries.program("pg_basebackup"),
            *address,
            *words,
            "--create-slot",
            f"--slot={SLOT}",
            "--write-recovery-conf",
            "--no-sync",
        ],
        check=True,
        capture_output=True,
        cwd=place,
        **server.owner.process_options,
    )
    settings = {"hot_standby_feedback": "on", "wal_receiver_status_interval": "1s"}
    standby = Mortal(server.binaries, server.owner, place, **settings)
    with psycopg.connect(server.dsn(), autocommit=True) as db:
        try:
            _await_xmin(db)
            standby.kill()
            yield
        finally:
            if standby.alive:
                standby.kill()
            _drop_slot(db)


def _await_xmin(db: psycopg.Connection[tuple[object, ...]]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    statement = "select xmin is not null from pg_replication_slots where slot_name = %s"
    while db.execute(statement, (SLOT,)).fetchone() != (True,):
        assert time.monotonic() < deadline, "the standby never told what it needs"
        time.sleep(0.1)


def _drop_slot(db: psycopg.Connection[tuple[object, ...]]) -> None:
    # Its session may take a moment to notice that the standby is dead.
    db.execute(
        "select pg_terminate_backend(active_pid, 10000) from pg_replication_slots "
        "where slot_name = %s and active_pid is not null",
        (SLOT,),
    )
    db.execute("select pg_drop_replication_slot(%s)", (SLOT,))


PART = Part(
    name="held-horizon",
    promise="A snapshot that a session holds does not slow the queue down.",
    how="800 messages a second, in bursts, for 8 minutes and 4 consumers at the same time, while "
    "a REPEATABLE READ reader, an idle transaction that has written, and the slot of a dead "
    "standby hold the vacuum horizon, all at once.",
    sabotage="the textbook queue (`UPDATE … SKIP LOCKED`, then `DELETE`) under the same load",
    breaks=frozenset({"throughput below 0.95 of fresh", "p99 of a claim above twice fresh"}),
    play=play,
    enough={"seconds held": 420, "consumed": 350_000, "slices cut": 1000},
)
