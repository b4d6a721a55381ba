"""`penstock worker` as an operator meets it: real processes, real signals."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.acceptance.commandline import PROGRAM, CommandLine
from tests.worker.play import PATIENCE_SECONDS, states

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import psycopg

    from tests.fixtures.databases import Database

    Db = psycopg.Connection[Any]

SHOP = "tests.worker.shop"


def eventually(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "it never came to that"
        time.sleep(0.01)


class Shop:
    """A worker's process, and what its handlers wrote down."""

    def __init__(self, database: Database, folder: Path) -> None:
        self._command = CommandLine(database.dsn)
        self._notes = folder / "notes"
        self._folder = folder
        self.started: list[subprocess.Popen[str]] = []

    def start(
        self, *words: str, target: str = "worker", start_new_session: bool = False
    ) -> subprocess.Popen[str]:
        environ = {"SHOP_NOTES": str(self._notes)}
        process = self._command.start(
            "worker",
            f"{SHOP}:{target}",
            *words,
            start_new_session=start_new_session,
            **environ,
        )
        self.started.append(process)
        return process

    def let_go(self) -> None:
        (self._folder / "go").touch()

    @property
    def notes(self) -> list[str]:
        return self._notes.read_text(encoding="utf-8").split("\n") if self._notes.exists() else []

    def count(self, word: str) -> int:
        return sum(line.startswith(word) for line in self.notes)


@pytest.fixture
def shop(database: Database, db: Db, tmp_path: Path) -> Iterator[Shop]:
    db.execute("select penstock.create_queue('billing', 'orders')")
    db.execute("select penstock.create_queue('threads', 'slow')")
    db.execute("select penstock.create_queue('processes', 'heavy')")
    shop = Shop(database, tmp_path)
    yield shop
    for process in shop.started:
        if process.poll() is None:
            process.kill()
        process.communicate()


def publish(db: Db, payload: str, topic: str = "orders") -> None:
    db.execute("select penstock.publish_message(%s, to_jsonb(%s::text))", (topic, payload))


def ended(process: subprocess.Popen[str]) -> int:
    return process.wait(timeout=PATIENCE_SECONDS)


def test_a_worker_finishes_what_runs_when_it_is_told_to_stop(shop: Shop, db: Db):
    publish(db, "wait")
    process = shop.start()
    eventually(lambda: shop.count("began") == 1)
    process.send_signal(signal.SIGTERM)
    publish(db, "after the signal")
    eventually(lambda: "worker.stopping" in process.stderr.readline())
    shop.let_go()
    assert ended(process) == 0
    assert shop.count("ended") == 1
    assert states(db) == {"pending": 1, "claimed": 0, "done": 1, "dead": 0}


def test_what_is_not_done_by_the_deadline_goes_back_to_its_queue(shop: Shop, db: Db):
    publish(db, "hang")
    process = shop.start("--grace", "100ms")
    eventually(lambda: shop.count("began") == 1)
    process.send_signal(signal.SIGINT)
    assert ended(process) == 0
    assert states(db) == {"pending": 1, "claimed": 0, "done": 0, "dead": 0}
    row = db.execute("select delivery_attempts from penstock.consume_message('billing', 'me')")
    assert row.fetchone() == (1,)


def test_a_thread_that_nobody_can_stop_does_not_keep_the_process(shop: Shop, db: Db):
    publish(db, "anything", topic="slow")
    process = shop.start("--grace", "100ms")
    eventually(lambda: shop.count("began") == 1)
    process.send_signal(signal.SIGTERM)
    assert ended(process) == 0
    assert states(db, "threads")["pending"] == 1


def test_a_stop_that_is_sent_to_the_whole_group_lets_processes_finish(shop: Shop, db: Db):
    publish(db, "anything", topic="heavy")
    process = shop.start(start_new_session=True)
    eventually(lambda: shop.count("began") == 1)
    os.killpg(process.pid, signal.SIGTERM)
    eventually(lambda: "worker.stopping" in process.stderr.readline())
    shop.let_go()
    assert ended(process) == 0
    assert shop.count("ended") == 1
    assert states(db, "processes") == {"pending": 0, "claimed": 0, "done": 1, "dead": 0}


def test_a_process_ends_with_the_worker_that_started_it(shop: Shop, db: Db):
    publish(db, "anything", topic="heavy")
    process = shop.start()
    eventually(lambda: shop.count("began") == 1)
    [child] = [int(line.split()[-1]) for line in shop.notes if line.startswith("began")]
    process.kill()
    ended(process)
    eventually(lambda: not alive(child))


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def test_a_second_signal_stops_at_once(shop: Shop, db: Db):
    publish(db, "hang")
    process = shop.start()
    eventually(lambda: shop.count("began") == 1)
    process.send_signal(signal.SIGTERM)
    eventually(lambda: "worker.stopping" in process.stderr.readline())
    process.send_signal(signal.SIGTERM)
    assert ended(process) == 128 + signal.SIGTERM
    assert states(db)["claimed"] == 1


def test_a_worker_that_was_killed_leaves_its_messages_to_the_next(shop: Shop, db: Db):
    publish(db, "wait")
    first = shop.start()
    eventually(lambda: shop.count("began") == 1)
    first.kill()
    ended(first)
    shop.let_go()
    db.execute("select penstock.advance_clock(interval '31 seconds')")
    second = shop.start()
    eventually(lambda: states(db)["done"] == 1)
    second.send_signal(signal.SIGTERM)
    assert ended(second) == 0
    assert shop.count("began") == 2


def test_json_gives_one_object_a_line(shop: Shop, db: Db):
    process = shop.start("--json", target="made")
    publish(db, "now")
    eventually(lambda: states(db)["done"] == 1)
    process.send_signal(signal.SIGTERM)
    out, _ = process.communicate(timeout=PATIENCE_SECONDS)
    events = [json.loads(line)["event"] for line in out.splitlines()]
    assert events[0] == "worker.started"
    assert events[-2:] == ["worker.stopping", "worker.stopped"]


def test_a_worker_that_gives_up_says_why(shop: Shop):
    process = shop.start(target="impatient")
    _, err = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 1
    assert "queue 'nowhere' could not be read 2 times in a row" in err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("target", "problem"),
    [
        ("nonsense", "MODULE:NAME"),
        ("tests.worker.nowhere:worker", "no module"),
        (f"{SHOP}:nobody", "has no 'nobody'"),
        (f"{SHOP}:something", "not a penstock.Worker"),
    ],
)
def test_a_worker_that_is_not_there_is_a_clear_error(
    database: Database, tmp_path: Path, target: str, problem: str
):
    ran = CommandLine(database.dsn)("worker", target, SHOP_NOTES=str(tmp_path / "notes"))
    assert ran.code == 2
    assert problem in " ".join(ran.err.replace("│", " ").split())


def test_watch_starts_the_worker_again_when_a_file_changes(
    database: Database, db: Db, tmp_path: Path
):
    db.execute("select penstock.create_queue('billing', 'orders')")
    source = (
        "import penstock\n"
        "worker = penstock.Worker(penstock.connect(), name='{name}')\n"
        "@worker.handler('billing')\n"
        "async def bill(message): pass\n"
    )
    module = tmp_path / "live_shop.py"
    module.write_text(source.format(name="before"), encoding="utf-8")
    command = CommandLine(database.dsn)
    process = subprocess.Popen(
        [PROGRAM, "worker", "live_shop:worker", "--watch", "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        cwd=tmp_path,
        env=command.environment({}),
    )
    try:
        assert process.stdout is not None
        eventually(lambda: '"before"' in process.stdout.readline())
        module.write_text(source.format(name="after"), encoding="utf-8")
        eventually(lambda: '"after"' in process.stdout.readline())
        process.send_signal(signal.SIGINT)
        process.wait(timeout=PATIENCE_SECONDS)
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


@pytest.mark.parametrize("words", [(), ("--traces",)])
def test_a_failed_handler_is_logged_with_its_error_and_its_place(
    shop: Shop, db: Db, words: tuple[str, ...]
) -> None:
    process = shop.start(*words)
    publish(db, "fail")
    eventually(lambda: shop.count("began"))
    eventually(lambda: states(db)["pending"] + states(db)["dead"] == 1)
    process.send_signal(signal.SIGTERM)
    _, shown = process.communicate(timeout=PATIENCE_SECONDS)
    assert "error_kind=LookupError" in shown
    assert "failed: LookupError: nothing of the sort" in shown
    assert "shop.py" in shown
    assert ("Traceback (most recent call last)" in shown) == bool(words)
