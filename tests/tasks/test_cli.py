"""`penstock task` on both databases."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import textwrap
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from penstock.cli import task
from penstock.cli.app import app
from penstock.cli.output import explain
from penstock.errors import PenstockError
from penstock.tasks import NewTask
from tests.acceptance.commandline import CommandLine, Ran
from tests.tasks import seed

if TYPE_CHECKING:
    from pathlib import Path

    from tests.tasks.backends import Place

pytestmark = pytest.mark.backends("pg18", "mariadb")
VERBS = ["init", "enqueue", "list", "show", "retry", "cancel"]
VERBS += ["dlq", "replay", "stats", "purge", "doctor", "worker"]


@dataclass(frozen=True, slots=True)
class Inside:
    """The command line in this process: starting a new one for every word would take minutes."""

    dsn: str

    def __call__(self, *words: str, stdin: str = "") -> Ran:
        ran = CliRunner().invoke(app, words, input=stdin, env={"PENSTOCK_DSN": self.dsn})
        if isinstance(ran.exception, PenstockError):
            return Ran(1, ran.stdout, " ".join(filter(None, explain(ran.exception))))
        assert ran.exception is None or isinstance(ran.exception, SystemExit), ran.exception
        return Ran(ran.exit_code, ran.stdout, ran.stderr)

    def ok(self, *words: str, stdin: str = "") -> Ran:
        ran = self(*words, stdin=stdin)
        assert ran.code == 0, ran.err + ran.out
        return ran


@pytest.fixture
def penstock(place: Place) -> Inside:
    return Inside(place.dsn)


def test_the_help_lists_all_verbs():
    text = CliRunner().invoke(task.app, ["--help"]).output
    assert re.findall(r"^│ ([a-z][a-z-]*) ", text, re.MULTILINE) == VERBS


def test_every_help_text_ends_with_an_example():
    # In this process, and not twelve times in a new one.
    for verb in VERBS:
        text = CliRunner().invoke(task.app, [verb, "--help"]).output
        *_, last = re.split(r"\n\s*\n", text.strip())
        assert last.strip().startswith(f"Example: penstock task {verb}")


def test_a_tasks_life_by_command(penstock: Inside):
    words = ["--tenant", "acme", "--dedupe-key", "k", "--meta", '{"a": 1}', "--id", "t1"]
    assert penstock.ok("--json", "task", "enqueue", "mail", "hello", *words).json["id"] == "t1"
    again = penstock("task", "enqueue", "mail", "hello", "--tenant", "acme", "--dedupe-key", "k")
    assert again.code == 1
    assert "it is task t1" in again.err
    [listed] = penstock.ok("task", "list", "--json", "--tenant", "acme").json
    assert (listed["payload"], listed["status"], listed["meta"]) == ("hello", "queued", {"a": 1})
    assert penstock.ok("task", "stats", "--json").json["queued"] == 1
    assert penstock.ok("task", "cancel", "t1", "--reason", "twice", "--json").lines == [
        {"id": "t1", "cancelled": True}
    ]
    shown = penstock.ok("task", "show", "t1", "--json").json
    assert (shown["status"], shown["last_error"], shown["history"]) == ("dead", "twice", [])
    assert "retried t1" in penstock.ok("task", "retry", "t1").out
    assert "no dead letters" in penstock.ok("task", "dlq").err
    assert penstock.ok("task", "replay", "--json").json == {"replayed": 0, "remaining": 0}
    assert penstock.ok("task", "purge", "--older-than", "1d", "--json").json == {"purged": 0}
    assert "no task nothing" in penstock("task", "show", "nothing").err
    assert penstock.ok("task", "doctor", "--json").json


def test_a_payload_comes_from_standard_input(penstock: Inside):
    task_id = penstock.ok("task", "enqueue", "mail", "-", "--json", stdin="naïve\n").json["id"]
    assert penstock.ok("task", "show", task_id, "--json").json["payload"] == "naïve\n"


def test_init_makes_the_tables(bare_place: Place):
    penstock = Inside(bare_place.dsn)
    assert "task init" in penstock("task", "stats").err
    assert "ready" in penstock.ok("task", "init").out
    assert penstock.ok("task", "stats", "--json").json["total"] == 0


def test_the_doctor_names_what_is_slow_and_fails(bare_place: Place):
    tables = seed.MYSQL if bare_place.backend.name == "mariadb" else seed.POSTGRES
    bare_place.backend.run(bare_place, *tables, *seed.INDEXES)  # type: ignore[attr-defined]
    ran = Inside(bare_place.dsn)("task", "doctor", "--json")
    assert ran.code == 1
    assert any("index" in each["name"] and not each["ok"] for each in ran.json)


def test_the_general_doctor_looks_at_tasks_and_wants_no_engine_for_them(
    penstock: Inside, place: Place
):
    found = {each["name"] for each in penstock.ok("doctor", "--json").json}
    own = "tasks: payload" if place.backend.name == "mariadb" else "tasks: index (lease_until)"
    assert {"package", "tasks: server", own} <= found


@pytest.mark.backends("pg18")
def test_without_tasks_and_without_the_engine_the_doctor_says_so(bare_place: Place):
    ran = Inside(bare_place.dsn)("doctor", "--json")
    assert ran.code == 1
    assert [each["advice"] for each in ran.json if not each["ok"]] == ["run penstock init"]


def test_a_dedupe_that_means_nothing_names_what_does(penstock: Inside):
    ran = penstock("task", "enqueue", "mail", "--dedupe-key", "k", "--dedupe", "soon")
    assert ran.code == 2
    assert "while-open" in ran.err


def test_the_general_doctor_says_what_to_improve_in_a_table_made_by_hand(bare_place: Place):
    tables = seed.MYSQL if bare_place.backend.name == "mariadb" else seed.POSTGRES
    bare_place.backend.run(bare_place, *tables, *seed.INDEXES)  # type: ignore[attr-defined]
    ran = Inside(bare_place.dsn)("doctor", "--json")
    assert ran.code == 1
    wrong = [each for each in ran.json if each["name"].startswith("tasks: ") and not each["ok"]]
    assert len(wrong) > 5
    assert all(each["advice"] for each in wrong)


def test_dead_letters_are_shown_and_replayed_by_command(penstock: Inside, place: Place):
    async def bury() -> None:
        async with place.opened() as store:
            for _ in range(3):
                await store.insert(NewTask("mail", b"p", max_attempts=1))
                [task] = await store.reserve("w")
                await store.move_to_dlq(task.lease, "no paper")

    asyncio.run(bury())
    assert [each["reason"] for each in penstock.ok("task", "dlq", "--json").json] == [
        "no paper"
    ] * 3
    kept = penstock.ok("task", "replay", "--max", "1", "--keep-attempts", "--json").json
    assert kept == {"replayed": 1, "remaining": 2}
    assert "put 2 back, 0 dead" in penstock.ok("task", "replay", "--delay", "1h").out
    found = penstock.ok("task", "list", "--json").json
    assert sorted((each["attempts"], each["max_attempts"]) for each in found) == [
        (0, 1),
        (0, 1),
        (1, 2),
    ]
    assert sum(each["available_at"] > each["created_at"] for each in found) == 2


def test_a_worker_runs_until_it_is_told_to_stop(penstock: Inside, place: Place, tmp_path: Path):
    (tmp_path / "chores.py").write_text(
        textwrap.dedent("""
            import penstock.tasks
            from penstock.tasks import TaskWorker
            worker = TaskWorker(penstock.tasks.connect())

            @worker.handler("mail", keep_result=True)
            async def send(task):
                print(task.payload.decode(), flush=True)
                if task.payload == b"twice":
                    raise ValueError("no paper")
                return {"sent": True}
        """)
    )
    words = ("task", "enqueue", "mail", "hello", "--priority", "30", "--json")
    task_id = penstock.ok(*words).json["id"]
    penstock.ok("task", "enqueue", "mail", "twice")
    path = os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("PYTHONPATH")]))
    running = CommandLine(place.dsn).start("task", "worker", "chores:worker", PYTHONPATH=path)
    try:
        assert running.stdout is not None
        assert running.stdout.readline() == "hello\n"
        assert running.stdout.readline() == "twice\n"
    finally:
        running.send_signal(signal.SIGTERM)
        _, err = running.communicate(timeout=60)
    assert running.returncode == 0, err
    assert "task.failed" in err, err
    shown = penstock.ok("task", "show", task_id, "--json").json
    assert (shown["status"], json.loads(shown["result"])) == ("done", {"sent": True})


@pytest.mark.backends("memory")
def test_a_password_never_reaches_the_screen():
    ran = Inside("mysql://ada:s3cret@127.0.0.1:1/db?unix_socket=/nowhere")("task", "stats")
    assert ran.code == 1
    assert "s3cret" not in ran.err + ran.out
