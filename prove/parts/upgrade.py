"""The engine is installed again under load, and the installation killed at many points."""

from __future__ import annotations

import gzip
import os
import shutil
import subprocess
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import psycopg

from penstock import schema
from prove.actors.names import FIFO
from prove.model import Outcome, Part
from prove.recorder import ROOT
from prove.servers import mortal
from prove.stage import RIVALS, staged

if TYPE_CHECKING:
    from pathlib import Path

    from prove.model import Take
    from prove.servers import Mortal
    from prove.stage import Stage

NAME = "penstock upgrade"
# The engine that is upgraded: a released one, without numbered migrations.
OLD = ROOT / "tests" / "sql" / "released" / "engine-1-38ec773.sql.gz"
# Where the newest migrations are in install.sql.
PAST = {"slices": "0006_slices.sql", "segments_in_use": "0007_segments_in_use.sql"}
# The server ends an installation that waits for a call which waits for it.
DEADLOCK = "40P01"
KILLED = "57P01"


class Installer:
    """psql, which runs a copy of install.sql."""

    def __init__(self, server: Mortal, scripts: Path) -> None:
        self._server = server
        self._scripts = scripts
        self._lines = (
            (scripts / "install.sql").read_text(encoding="utf-8").splitlines(keepends=True)
        )
        self._includes = [
            place for place, line in enumerate(self._lines) if line.startswith("\\ir ")
        ]

    def start(self, dsn: str, script: str = "install.sql") -> subprocess.Popen[str]:
        program = self._server.binaries.program("psql")
        words = ["-X", "-q", "-v", "ON_ERROR_STOP=1", "-v", "VERBOSITY=verbose"]
        return subprocess.Popen(
            [program, *words, "-f", str(self._scripts / script), "-d", dsn],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PGAPPNAME": NAME},
        )

    def stop_at(self, part: float) -> list[str]:
        """Write stopped.sql, which ends its session when it has done that part of install.sql.

        Returns the newest migrations that it has run by then.
        """
        done = self._lines[: self._includes[int(part * len(self._includes))] + 1]
        text = "".join([*done, "select pg_terminate_backend(pg_backend_pid());\n"])
        (self._scripts / "stopped.sql").write_text(text, encoding="utf-8")
        return [name for name, file in PAST.items() if f"{file}\n" in text]


@dataclass
class Tally:
    """What became of installations."""

    killed: int = 0
    finished: int = 0
    halves: int = 0
    deadlocks: int = 0
    past: Counter[str] = field(default_factory=Counter)
    """Killed after that migration."""


def play(take: Take) -> Outcome:
    kills = take.size(full=30, quick=3, twin=6)
    scripts = shutil.copytree(schema.folder(), take.folder / "sql")
    if take.sabotaged:
        _in_steps(scripts)
    with mortal() as server, staged(_old(server, "old"), take.folder, fifo=True) as stage:
        publishers = stage.publishers(2, "--lanes", "2", "--batch", "5", "--pause", "0.02")
        workers = stage.workers(2, "--fifo") + stage.rivals(1, "--fifo")
        installer = Installer(server, scripts)
        up = _upgrade(take, stage, installer, kills)
        _install_whole(stage)
        again = _install_again(take, stage, installer, kills)
        _install_whole(stage)
        time.sleep(2)
        stage.close(publishers, workers)
        verdict, ordered = stage.verdict(), stage.verdict(queue=FIFO)
    broken = dict(verdict.broken)
    for name, count in ordered.broken.items():
        broken[name] = broken.get(name, 0) + count
    halves = up.halves + again.halves
    failed = sum(stage.troubles.values())
    # A call that waits while the upgrade commits may fail, and its session goes on.
    found = {"half installed": halves, "calls failed too often": max(failed - RIVALS, 0)}
    broken |= {name: count for name, count in found.items() if count}
    counts = {
        **verdict.counts,
        "out of order": len(ordered.inverted),
        "in order per key": ordered.delivered,
        "upgrades killed": up.killed,
        **{f"upgrades killed past {name}": up.past[name] for name in PAST},
        "upgrades ended by a deadlock": up.deadlocks,
        "installations killed": again.killed,
        "half installed": halves,
        "calls failed": failed,
        **stage.troubles,
        **stage.slices,
    }
    return Outcome(counts, broken)


def _old(server: Mortal, name: str) -> str:
    """A database with an old engine."""
    with psycopg.connect(server.dsn("postgres"), autocommit=True) as db:
        db.execute(f"create database {name}".encode())
    with psycopg.connect(server.dsn(name)) as db:
        db.execute(gzip.decompress(OLD.read_bytes()))
        # The actors stand for clients of that release.  Those of this one would refuse to start.
        db.execute(
            "create function penstock.schema_revision() returns int language sql immutable "
            f"as 'select {schema.EXPECTED_REVISION}'".encode()
        )
    return server.dsn(name)


def _install_whole(stage: Stage) -> None:
    with psycopg.connect(stage.dsn) as db:
        schema.install(db)
        schema.check(db)
    stage.fault("upgraded")


def _in_steps(copy: Path) -> None:
    """Take their transaction from the scripts: each statement commits by itself."""
    install, before = copy / "install.sql", copy / "schema" / "schema.sql"
    text = install.read_text(encoding="utf-8")
    assert text.count("\nbegin;\n") == 1, "install.sql has changed: bring the sabotage along"
    install.write_text(text.replace("\nbegin;\n", "\n").replace("\ncommit;\n", "\n"))
    text = before.read_text(encoding="utf-8")
    assert text.count(" on commit drop") == 1, "schema.sql has changed: bring the sabotage along"
    before.write_text(text.replace(" on commit drop", ""))


def _upgrade(take: Take, stage: Stage, installer: Installer, kills: int) -> Tally:
    """End the session of upgrades after so many of their scripts, from the first to the last."""
    luck, tally = take.luck, Tally()
    with psycopg.connect(stage.dsn, autocommit=True) as db:
        while tally.killed < kills:
            before = _engine(db)
            past = installer.stop_at((tally.killed + luck.random()) / kills)
            errors = _end(installer.start(stage.dsn, "stopped.sql"))
            if DEADLOCK in errors:
                tally.deadlocks += 1
                assert tally.deadlocks < kills, errors
                continue
            assert KILLED in errors, errors
            stage.fault("upgrade killed")
            tally.killed += 1
            tally.past.update(past)
            tally.halves += before != _engine(db)
    take.say(f"{tally.killed} upgrades killed, {tally.deadlocks} ended by a deadlock")
    return tally


def _install_again(take: Take, stage: Stage, installer: Installer, kills: int) -> Tally:
    """Kill installations at moments all over their course.

    One that was faster than its killer does not count, and is tried again a little earlier.
    """
    luck, tally = take.luck, Tally()
    with psycopg.connect(stage.dsn, autocommit=True) as db:
        begun = time.monotonic()
        _end(installer.start(stage.dsn))
        whole = time.monotonic() - begun
        while tally.killed < kills and tally.finished < 3 * kills:
            before = _functions(db)
            process = installer.start(stage.dsn)
            time.sleep(whole * (tally.killed + luck.random()) / kills)
            db.execute(
                "select pg_terminate_backend(pid, 10000) from pg_stat_activity "
                "where application_name = %s",
                (NAME,),
            )
            _end(process)
            kept = len(before.items() & _functions(db).items())
            if kept == 0:
                tally.finished += 1
                whole *= 0.95
                continue
            stage.fault("installation killed")
            tally.killed += 1
            tally.halves += kept < len(before)
    take.say(f"{tally.killed} installations killed, {tally.finished} were faster")
    return tally


def _engine(db: psycopg.Connection[Any]) -> tuple[dict[int, str], set[tuple[str, str]]]:
    return _functions(db), _columns(db)


def _functions(db: psycopg.Connection[Any]) -> dict[int, str]:
    """The engine's functions, each with the transaction that wrote it."""
    rows = db.execute(
        "select p.oid::bigint, p.xmin::text from pg_proc p "
        "where p.pronamespace::regnamespace::text in ('penstock', 'penstock_data')"
    )
    return dict(rows.fetchall())


def _columns(db: psycopg.Connection[Any]) -> set[tuple[str, str]]:
    """The columns of the engine's tables."""
    rows = db.execute(
        "select c.relname, a.attname from pg_attribute a join pg_class c on c.oid = a.attrelid "
        "where c.relnamespace::regnamespace::text = 'penstock_data' and c.relkind in ('r', 'p') "
        "and c.relpersistence <> 't' and a.attnum > 0 and not a.attisdropped "
        "and not c.relispartition"
    )
    return set(rows.fetchall())


def _end(process: subprocess.Popen[str]) -> str:
    """Wait for it; returns the errors that it told."""
    return process.communicate(timeout=120)[1]


PART = Part(
    name="upgrade",
    promise="The engine is upgraded while it works, and an upgrade that dies leaves it as it was.",
    how="Under load, 6 rivals included, sessions that claim at the same time, `install.sql` runs "
    "again and again on the engine of a release, and its session is killed at 30 places spread "
    "over its scripts; then once to the end. On the new engine the same, at 30 moments.",
    sabotage="each statement of the installation commits by itself",
    breaks=frozenset({"half installed"}),
    play=play,
    enough={
        "upgrades killed": 30,
        "upgrades killed past slices": 20,
        "upgrades killed past segments_in_use": 20,
        "installations killed": 30,
        "acked": 1000,
        "slices cut": 100,
    },
)
