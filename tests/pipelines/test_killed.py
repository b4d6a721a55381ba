"""Pipelines killed again and again, in every phase, while others publish: lost 0, doubled 0.

Publishers commit out of order, slowly, and roll back.  A pipeline is killed whole (driver, Java,
workers), or only its Python workers, as an executor that dies.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self

import psutil
import psycopg
import pytest
from deltalake import DeltaTable

from penstock import schema

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.fixtures.databases import Database

# For a short look: PENSTOCK_TEST_KILLS=2 pytest -m prove tests/pipelines/test_killed.py
KILLS = int(os.environ.get("PENSTOCK_TEST_KILLS", "20"))
PROGRAM = [sys.executable, "-m", "penstock.cli", "pipeline"]


class Publishers:
    """Threads that publish numbers, some in slow transactions, some in vain."""

    def __init__(self, dsn: str, topic: str) -> None:
        self._dsn, self._topic = dsn, topic
        self._leaving = threading.Event()
        self._numbers = iter(range(10**9))
        self._lock = threading.Lock()
        self.committed: set[int] = set()
        self._threads = [threading.Thread(target=self._publish, args=(n,)) for n in range(4)]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_problem: object) -> None:
        self._leaving.set()
        for thread in self._threads:
            thread.join()

    def _publish(self, seed: int) -> None:
        chance = random.Random(seed)
        with psycopg.connect(self._dsn) as connection:
            while not self._leaving.is_set():
                with self._lock:
                    numbers = [next(self._numbers) for _each in range(chance.randint(1, 40))]
                connection.execute(
                    "select count(*) from penstock.publish_messages(%s, array("
                    "select jsonb_build_object('n', n) from unnest(%s::int[]) n))",
                    (self._topic, numbers),
                )
                self._leaving.wait(chance.choice([0, 0, 0.01, 0.5]))
                if chance.random() < 0.2:
                    connection.rollback()
                else:
                    connection.commit()
                    self.committed.update(numbers)
                self._leaving.wait(0.05)


def start(dsn: str, words: list[str]) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "PENSTOCK_DSN": dsn}
    return subprocess.Popen(
        [*PROGRAM, *words], env=environment, start_new_session=True,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip


def kill_whole(running: subprocess.Popen[bytes]) -> None:
    os.killpg(running.pid, signal.SIGKILL)
    running.wait()


def kill_workers(running: subprocess.Popen[bytes]) -> None:
    """The Python workers die; the job fails, and the command ends with an error."""
    for child in psutil.Process(running.pid).children(recursive=True):
        # Some end by themselves meanwhile.
        with suppress(psutil.Error):
            if "pyspark" in " ".join(child.cmdline()):
                child.kill()
    time.sleep(1)
    kill_whole(running)


def harass(dsn: str, words: list[str], moved: Callable[[], int]) -> None:
    """Start it, let it get to work, kill it: so many times."""
    chance = random.Random(7)
    for number in range(KILLS):
        before = moved()
        running = start(dsn, words)
        deadline = time.monotonic() + 120
        # Every other time before anything was moved in this run, wherever it is by then.
        while number % 2 and moved() == before and time.monotonic() < deadline:
            assert running.poll() is None, "it ended by itself"
            time.sleep(0.1)
        time.sleep(chance.uniform(0, 6 if number % 2 else 14))
        (kill_workers if number % 5 == 4 else kill_whole)(running)


@pytest.fixture
def orders(database: Database) -> Publishers:
    with psycopg.connect(database.tcp_dsn, autocommit=True) as connection:
        schema.check(connection)
        connection.execute("select penstock.create_topic('orders')")
    return Publishers(database.tcp_dsn, "orders")


@pytest.mark.prove
@pytest.mark.timeout(3600)
def test_an_archive_killed_twenty_times(orders: Publishers, database: Database, tmp_path: Path):
    lake = tmp_path / "lake"
    words = ["archive", "orders", "--to", str(lake)]

    def rows() -> list[int]:
        if not DeltaTable.is_deltatable(str(lake)):
            return []
        values = DeltaTable(str(lake)).to_pyarrow_table(columns=["value"])["value"].to_pylist()
        return [int(value.split(":")[1].rstrip("}")) for value in values]

    with orders:
        harass(database.tcp_dsn, [*words, "--max-rows", "200"], lambda: len(rows()))
    assert start(database.tcp_dsn, [*words, "--once"]).wait(600) == 0
    judge(rows(), orders.committed)


@pytest.mark.prove
@pytest.mark.timeout(3600)
def test_a_route_killed_twenty_times(orders: Publishers, database: Database, tmp_path: Path):
    words = ["route", "orders", "--to", "routed", "--state", str(tmp_path / "s")]

    def rows() -> list[int]:
        with psycopg.connect(database.tcp_dsn) as connection:
            found: Any = connection.execute(
                "select (payload ->> 'n')::int from penstock.log where topic = 'routed'"
            )
            return [number for (number,) in found]

    with orders:
        harass(database.tcp_dsn, [*words, "--max-rows", "200"], lambda: len(rows()))
    assert start(database.tcp_dsn, [*words, "--once"]).wait(600) == 0
    judge(rows(), orders.committed)


def judge(found: list[int], committed: set[int]) -> None:
    doubled = {number for number, times in Counter(found).items() if times > 1}
    lost, phantom = committed - set(found), set(found) - committed
    assert (len(lost), len(doubled), len(phantom)) == (0, 0, 0)
    assert len(found) > KILLS * 10
    print(f"{KILLS} kills: {len(committed)} published, lost 0, doubled 0")
