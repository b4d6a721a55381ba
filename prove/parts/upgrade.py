"""The engine is installed again under load, and the installation killed at many points."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from typing import TYPE_CHECKING, Any

import psycopg

from penstock import schema
from prove.model import Outcome, Part
from prove.servers import mortal
from prove.stage import staged

if TYPE_CHECKING:
    from pathlib import Path

    from prove.model import Take
    from prove.servers import Mortal
    from prove.stage import Stage

NAME = "penstock upgrade"


def play(take: Take) -> Outcome:
    kills = take.size(full=30, quick=3, twin=6)
    scripts = _in_steps(take.folder / "sql") if take.sabotaged else schema.folder()
    with mortal() as server, staged(server.dsn(), take.folder, fifo=True) as stage:
        publishers = stage.publishers(2, "--lanes", "2", "--batch", "5", "--pause", "0.02")
        workers = stage.workers(2, "--fifo") + stage.rivals(1, "--fifo")
        halves, killed = _upgrade(take, server, stage, scripts, kills)
        with psycopg.connect(server.dsn()) as db:
            schema.install(db)
            schema.check(db)
        stage.fault("upgraded")
        time.sleep(2)
        stage.close(publishers, workers)
        verdict = stage.verdict()
    broken = dict(verdict.broken)
    if halves:
        broken["half installed"] = halves
    counts = {
        **verdict.counts,
        **stage.slices,
        "installations killed": killed,
        "half installed": halves,
    }
    return Outcome(counts, broken)


def _in_steps(copy: Path) -> Path:
    """The scripts without their transaction: each statement commits by itself."""
    shutil.copytree(schema.folder(), copy)
    install, before = copy / "install.sql", copy / "schema" / "schema.sql"
    text = install.read_text(encoding="utf-8")
    assert text.count("\nbegin;\n") == 1, "install.sql has changed: bring the sabotage along"
    install.write_text(text.replace("\nbegin;\n", "\n").replace("\ncommit;\n", "\n"))
    text = before.read_text(encoding="utf-8")
    assert text.count(" on commit drop") == 1, "schema.sql has changed: bring the sabotage along"
    before.write_text(text.replace(" on commit drop", ""))
    return copy


def _upgrade(
    take: Take, server: Mortal, stage: Stage, scripts: Path, kills: int
) -> tuple[int, int]:
    """Kill installations at moments all over their course; how many were half done, or whole.

    One that was faster than its killer does not count, and is tried again a little earlier.
    """
    luck = take.luck
    killed = halves = finished = 0
    with psycopg.connect(server.dsn(), autocommit=True) as db:
        begun = time.monotonic()
        _end(_install(server, scripts))
        whole = time.monotonic() - begun
        while killed < kills and finished < 3 * kills:
            before = _functions(db)
            process = _install(server, scripts)
            time.sleep(whole * (killed + luck.random()) / kills)
            db.execute(
                "select pg_terminate_backend(pid, 10000) from pg_stat_activity "
                "where application_name = %s",
                (NAME,),
            )
            _end(process)
            kept = len(before.items() & _functions(db).items())
            if kept == 0:
                finished += 1
                whole *= 0.95
                continue
            stage.fault("installation killed")
            killed += 1
            halves += kept < len(before)
    take.say(f"{killed} installations killed, {finished} were faster")
    return halves, killed


def _functions(db: psycopg.Connection[Any]) -> dict[int, str]:
    """The engine's functions, each with the transaction that wrote it."""
    rows = db.execute(
        "select p.oid::bigint, p.xmin::text from pg_proc p "
        "where p.pronamespace::regnamespace::text in ('penstock', 'penstock_data')"
    )
    return dict(rows.fetchall())


def _install(server: Mortal, scripts: Path) -> subprocess.Popen[bytes]:
    program = server.binaries.program("psql")
    words = ["-X", "-q", "-v", "ON_ERROR_STOP=1", "-f", str(scripts / "install.sql")]
    return subprocess.Popen(
        [program, *words, "-d", server.dsn()],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PGAPPNAME": NAME},
    )


def _end(process: subprocess.Popen[bytes]) -> None:
    process.wait(timeout=120)


PART = Part(
    name="upgrade",
    promise="The engine is upgraded while it works, and an upgrade that dies leaves it as it was.",
    how="Under load `install.sql` runs again and again, and its session is killed at 30 moments "
    "spread over its course; then once to the end.",
    sabotage="each statement of the installation commits by itself",
    breaks=frozenset({"half installed"}),
    play=play,
    enough={"installations killed": 30, "acked": 1000},
)
