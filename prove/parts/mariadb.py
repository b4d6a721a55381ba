"""Tasks on MariaDB: the server is killed, and other sessions lock each other out."""

from __future__ import annotations

import asyncio
import contextlib
import os
import tempfile
import threading
import time
from collections import Counter
from typing import TYPE_CHECKING, Any, Self

import pymysql

from penstock.tasks import open_store
from penstock.tasks.options import StoreOptions
from prove import checker
from prove.actors.names import QUEUE
from prove.cast import Cast
from prove.ledger import Step
from prove.model import Outcome, Part
from prove.recorder import Recorder
from tests.tasks import mariadb

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prove.model import Take

DATABASE = "shop"
ENQUEUERS = 4
WORKERS = 8
LEASE = 15
STORMERS = 2
LOCKED = 40
DEADLOCK = 1213
CAREFUL = ("--innodb-flush-log-at-trx-commit=1",)
# A commit does not wait for the log, which is written out when the server finds the time.
CARELESS = ("--innodb-flush-log-at-trx-commit=0", "--innodb-flush-log-at-timeout=1000")


class TaskCast(Cast):
    """Actors that share the tables of tasks on one server."""

    def __init__(self, server: mariadb.MariaDB, recorder: Recorder) -> None:
        super().__init__(server.dsn(DATABASE), recorder)
        self.server = server

    def drained(self) -> bool:
        return rows(self.server, "select count(*) from mq_tasks where status <> 'done'") == ((0,),)

    def verdict(self) -> checker.Verdict:
        claims = {
            # A task is claimed once for each attempt, and the last one is acked.
            int(payload) + 1: Counter(acked=int(status == "done"), expired=attempts - 1)
            for payload, attempts, status in rows(
                self.server, "select payload, attempts, status from mq_tasks"
            )
        }
        return checker.judge(checker.within(self.entries(), QUEUE), claims)

    def vanished(self) -> int:
        """Tasks that were promised, and are not even done: there is nothing of them."""
        stored = {int(row[0]) for row in rows(self.server, "select payload from mq_tasks")}
        return len({each.number for each in self.entries() if each.step is Step.ACKED} - stored)

    def acks_forgotten(self) -> int:
        """Tasks whose worker was told that they are done, and that were given to another."""
        done: set[int] = set()
        again: set[int] = set()
        for entry in self.entries():
            if entry.step is Step.DONE:
                done.add(entry.number)
            elif entry.step is Step.DELIVERED and entry.number in done:
                again.add(entry.number)
        return len(again)


def rows(server: mariadb.MariaDB, statement: str) -> tuple[tuple[Any, ...], ...]:
    connection = server.connect(DATABASE)
    try:
        with connection.cursor() as cursor:
            cursor.execute(statement)
            return tuple(cursor.fetchall())
    finally:
        connection.close()


def play(take: Take) -> Outcome:
    try:
        mariadb.program("mariadbd")
    except mariadb.Missing as problem:
        return Outcome(skipped=str(problem))
    kills = take.size(full=30, quick=2, twin=6)
    with (
        _on_disk(),
        mariadb.running(*(CARELESS if take.sabotaged else CAREFUL)) as server,
        Recorder(take.folder) as recorder,
    ):
        server.administer(f"create database {DATABASE}")
        asyncio.run(_create_tables(server))
        cast = TaskCast(server, recorder)
        try:
            enqueuers = cast.publishers(ENQUEUERS, "--pause", "0.05", part="enqueue")
            workers = cast.workers(WORKERS, "--claim", str(LEASE), part="perform")
            with Storm(server) as storm:
                _kill(take, cast, kills)
            cast.close(enqueuers, workers)
            return _outcome(cast, kills, storm.deadlocks)
        finally:
            cast.end()


@contextlib.contextmanager
def _on_disk() -> Iterator[None]:
    """Not in memory, where test servers live: a log there is never lost, however careless."""
    before = os.environ.get("TMPDIR")
    os.environ["TMPDIR"] = before or tempfile.gettempdir()
    try:
        yield
    finally:
        if before is None:
            del os.environ["TMPDIR"]


async def _create_tables(server: mariadb.MariaDB) -> None:
    store = open_store(server.dsn(DATABASE), StoreOptions())
    await store.create_tables()
    await store.close()


def _kill(take: Take, cast: TaskCast, kills: int) -> None:
    luck = take.luck
    for kill in range(kills):
        time.sleep(luck.uniform(2, 5))
        cast.server.kill()
        cast.fault("server killed")
        cast.server.start()
        if kill % 10 == 9:
            take.say(f"{kill + 1} kills")
    time.sleep(2)


def _outcome(cast: TaskCast, kills: int, deadlocks: int) -> Outcome:
    verdict = cast.verdict()
    found = {"acks forgotten": cast.acks_forgotten(), "vanished": cast.vanished()}
    broken = verdict.broken | {name: count for name, count in found.items() if count}
    counts = {
        **verdict.counts,
        "server kills": kills,
        "deadlocks of the storm": deadlocks,
        **found,
    }
    return Outcome(counts, broken)


class Storm:
    """Sessions that lock tasks in orders of their own, so that they and workers deadlock."""

    def __init__(self, server: mariadb.MariaDB) -> None:
        self.deadlocks = 0
        self._server = server
        self._over = threading.Event()
        self._threads = [
            threading.Thread(target=self._blow, args=(order,), daemon=True)
            for order in ("asc", "desc") * (STORMERS // 2)
        ]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()

    def _blow(self, order: str) -> None:
        while not self._over.is_set():
            try:
                self._lock_all(order)
            except pymysql.MySQLError as error:
                self.deadlocks += error.args[0] == DEADLOCK
            # Not so often that nobody else gets anything done.
            self._over.wait(0.05)

    def _lock_all(self, order: str) -> None:
        connection = self._server.connect(DATABASE, read_timeout=10, connect_timeout=2)
        with contextlib.closing(connection), connection.cursor() as cursor:
            cursor.execute(f"select id from mq_tasks order by created_at desc limit {LOCKED}")
            ids = sorted((row[0] for row in cursor.fetchall()), reverse=order == "desc")
            connection.begin()
            for task_id in ids:
                cursor.execute("select 1 from mq_tasks where id = %s for update", (task_id,))
            connection.rollback()


PART = Part(
    name="mariadb",
    promise="Tasks on MariaDB survive the death of the server, and deadlocks cost nothing but a "
    "repetition.",
    how="The server is killed 30 times under 4 enqueuers and 8 workers, while other sessions lock "
    "the newest tasks in opposite orders.",
    sabotage="`innodb_flush_log_at_trx_commit = 0`",
    breaks=frozenset({"lost", "vanished"}),
    play=play,
    enough={"server kills": 30, "acked": 5000, "deadlocks of the storm": 10},
)
