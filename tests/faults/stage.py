"""Where fault programmes play: actors as processes, and a server that may be killed."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections import Counter, defaultdict
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import psycopg

from penstock import schema
from penstock.testing import server as servers
from tests.faults import checker, ledger
from tests.faults.actors import QUEUE, TOPIC
from tests.faults.checker import Receipt
from tests.faults.ledger import Step
from tests.fixtures.databases import Database

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import timedelta

    from penstock.embedded.account import Account
    from penstock.embedded.locate import Binaries
    from tests.faults.checker import Punctuality, Verdict

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_SECONDS = 120.0
DATABASE = "faults"


class Stage:
    """The actors of one programme, their ledgers, and the queue they share."""

    def __init__(self, dsn: str, folder: Path) -> None:
        self.dsn = dsn
        self.folder = folder
        self.actors: list[subprocess.Popen[bytes]] = []
        with psycopg.connect(dsn, autocommit=True) as db:
            # No number of attempts kills a message here: what is dead would look lost.
            db.execute(
                "select penstock.create_queue(%s, %s, max_delivery_attempts => 0)", (QUEUE, TOPIC)
            )

    def start(self, part: str, *words: str, dsn: str | None = None) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "tests.faults.actors", part, *words]
        place = ["--dsn", dsn or self.dsn, "--folder", str(self.folder)]
        with (self.folder / f"{part}.log").open("ab") as log:
            actor = subprocess.Popen([*command, *place], cwd=ROOT, stdout=log, stderr=log)
        self.actors.append(actor)
        return actor

    def stop(self, actors: list[subprocess.Popen[bytes]]) -> list[int]:
        """End actors in an orderly way; returns their exit codes."""
        for actor in actors:
            actor.send_signal(signal.SIGTERM)
        return [actor.wait(timeout=PATIENCE_SECONDS) for actor in actors]

    def end(self) -> None:
        for actor in self.actors:
            if actor.poll() is None:
                actor.kill()
            actor.wait()

    def drained(self) -> bool:
        with psycopg.connect(self.dsn, autocommit=True) as db:
            found = db.execute(
                "select pending_count + processing_count from penstock.get_queue_statistics(%s)",
                (QUEUE,),
            ).fetchone()
        return found == (0,)

    def await_publishing(self, publishers: int) -> None:
        """Until every publisher has been told of something stored: faults begin after it."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while self._publishing() < publishers:
            assert time.monotonic() < deadline, "nothing is published"
            time.sleep(0.1)

    def _publishing(self) -> int:
        found = self.folder.glob("publish-*.ledger")
        return sum(Step.ACKED in each.read_text(encoding="ascii") for each in found)

    def await_drained(self) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not self.drained():
            assert time.monotonic() < deadline, "the queue is never empty"
            time.sleep(0.2)

    def verdict(self, *, crashes: int = 0) -> Verdict:
        return checker.judge(ledger.read(self.folder), self._claims(), crashes=crashes)

    def _claims(self) -> dict[int, Counter[str]]:
        found: dict[int, Counter[str]] = defaultdict(Counter)
        for receipt in self._receipts():
            found[receipt.message_id][receipt.outcome] += 1
        return found

    def punctuality(self, *, claim: timedelta, allowed: timedelta) -> Punctuality:
        """How soon what was left undone came back; only for claims that nobody has extended."""
        extended = [each for each in ledger.read(self.folder) if each.step is Step.EXTENDED]
        assert not extended, "claims were extended, so nobody knows when they should have ended"
        return checker.punctuality(self._receipts(), claim=claim, allowed=allowed)

    def _receipts(self) -> list[Receipt]:
        with psycopg.connect(self.dsn, autocommit=True) as db:
            rows = db.execute(
                "select unnest(message_ids), outcome, claimed_at from penstock_data.receipts"
            )
            return [Receipt(*row) for row in rows]


class Mortal:
    """A server of its own that keeps its promises to the disk, and can be killed."""

    def __init__(self, binaries: Binaries, owner: Account, folder: Path, **settings: str) -> None:
        self._binaries = binaries
        self._owner = owner
        self._folder = folder
        self._settings = {"synchronous_commit": "on", "full_page_writes": "on", **settings}
        self._process, self._port = servers.start(
            self._binaries, self._owner, folder, settings=self._settings
        )

    @property
    def database(self) -> Database:
        """The database with the engine."""
        pid = self._process.pid
        server = servers.Server("mortal", self._binaries, self._folder, self._port, pid)
        return Database(server, DATABASE)

    def dsn(self, database: str = DATABASE) -> str:
        return self.database.server.dsn(database)

    def kill(self) -> None:
        """SIGKILL for every process of it at once, as when the power of its container goes."""
        postmaster = psutil.Process(self._process.pid)
        family = [postmaster, *postmaster.children(recursive=True)]
        for process in family:
            process.kill()
        self._process.wait()
        psutil.wait_procs(family, timeout=20)

    def start(self) -> None:
        self._process, self._port = servers.start(
            self._binaries, self._owner, self._folder, settings=self._settings, port=self._port
        )

    def end(self) -> None:
        servers.end(self._process)


@contextmanager
def mortal(**settings: str) -> Iterator[Mortal]:
    """A server with an empty engine."""
    with servers.cluster(servers.any_binaries()) as place:
        server = Mortal(*place, **settings)
        try:
            with psycopg.connect(server.dsn("postgres"), autocommit=True) as db:
                db.execute(f"create database {DATABASE}".encode())
            with psycopg.connect(server.dsn()) as db:
                schema.install(db)
            with psycopg.connect(server.dsn(), autocommit=True) as db:
                # The engine itself is not at stake, however careless the server.
                db.execute("checkpoint")
            yield server
        finally:
            server.end()


def terminate_backends(db: psycopg.Connection[Any]) -> int:
    """Cut off everybody else's sessions on this database."""
    found = db.execute(
        "select count(pg_terminate_backend(pid)) from pg_stat_activity "
        "where datname = current_database() and pid <> pg_backend_pid()"
    ).fetchone()
    assert found is not None
    count: int = found[0]
    return count
