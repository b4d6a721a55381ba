"""What is done on the second day: watch, pause, follow, show, move."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from tests.acceptance.commandline import PROGRAM, CommandLine
from tests.fixtures.proxy import Proxy

if TYPE_CHECKING:
    from tests.fixtures.databases import Database


@pytest.fixture
def billing(database: Database) -> CommandLine:
    """A queue "billing" on a topic "orders" that dies after one attempt, with one message in it."""
    penstock = CommandLine(database.dsn)
    penstock.ok("queue", "create", "billing", "--topic", "orders", "--max-attempts", "1")
    penstock.ok("message", "publish", "orders", '{"order": 7}', "--header", "region=eu")
    return penstock


def die(penstock: CommandLine, number: int) -> None:
    penstock.ok("message", "consume", "billing", "--token", "t")
    penstock.ok("message", "nack", "billing", str(number), "--token", "t", "--error", "refused")


def test_a_paused_queue_gives_out_nothing_until_it_is_resumed(billing: CommandLine) -> None:
    assert billing.ok("queue", "pause", "billing", "--json").json["paused_at"]
    assert billing.ok("message", "consume", "billing", "--json").out == ""
    assert billing.ok("queue", "resume", "billing").out == "queue billing goes on\n"
    assert billing.ok("queue", "resume", "billing").out == "queue billing was not paused\n"
    assert len(billing.ok("message", "consume", "billing", "--json").lines) == 1
    with psycopg.connect(billing.dsn or "") as db:
        rows = db.execute("select action, target, actor from penstock.list_actions() order by id")
        noted = rows.fetchall()
    assert [row[:2] for row in noted] == [("pause", "billing"), *[("resume", "billing")] * 2]
    assert "command line" in noted[0][2]


def test_stats_count_one_queue_or_all(billing: CommandLine) -> None:
    billing.ok("queue", "create", "shipping", "--topic", "orders", "--start-at", "beginning")
    rows = billing.ok("queue", "stats", "--json").json
    assert [(row["queue"], row["pending_count"]) for row in rows] == [
        ("billing", 1),
        ("shipping", 1),
    ]
    (row,) = billing.ok("queue", "stats", "billing", "--json").json
    assert row["dead_count"] == 0
    assert billing("queue", "stats", "nothing").code == 1


def test_watch_writes_a_line_for_each_look_into_a_pipe(billing: CommandLine) -> None:
    rows = billing.ok("queue", "watch", "--every", "10ms", "--count", "2", "--json").lines
    assert [(row["queue"], row["waiting"]) for row in rows] == [("billing", 1)] * 2
    assert rows[0]["in_s"] is None
    assert rows[1]["in_s"] == 0
    line = billing.ok("queue", "watch", "billing", "--count", "1").out
    assert "billing  waiting=1  blocked=0  delayed=0  retrying=0  claimed=0" in line
    assert billing("queue", "watch", "nothing", "--count", "1").code == 1


def test_watch_draws_a_table_on_a_terminal_and_ends_on_ctrl_c(billing: CommandLine) -> None:
    master, slave = pty.openpty()
    process = subprocess.Popen(
        [PROGRAM, "queue", "watch", "--every", "100ms"],
        stdin=slave,
        stdout=slave,
        stderr=slave,
        env=billing.environment({"TERM": "xterm"}),
    )
    os.close(slave)
    seen = b""
    while b"billing" not in seen:
        assert select.select([master], [], [], 60)[0], seen
        seen += os.read(master, 4096)
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 0
    os.close(master)


@pytest.mark.parametrize("words", [("message", "tail", "billing"), ("topic", "tail", "orders")])
def test_tail_shows_what_comes_and_takes_it_from_nobody(
    billing: CommandLine, words: tuple[str, ...]
) -> None:
    following = billing.start(*words, "--count", "2", "--json")
    assert following.stderr is not None
    # It says so only when its own look at the topic has begun.
    assert "following" in following.stderr.readline()
    billing.ok("message", "publish", "orders", "8")
    billing.ok("message", "publish", "orders", "9", "--key", "k")
    out, _ = following.communicate(timeout=120)
    assert following.returncode == 0
    assert [line["payload"] for line in CommandLine.lines_of(out)] == [8, 9]
    (queue,) = billing.ok("queue", "stats", "--json").json
    assert queue["pending_count"] == 3


def test_tail_ends_on_ctrl_c_and_leaves_no_queue_behind(billing: CommandLine) -> None:
    following = billing.start("topic", "tail", "orders")
    assert following.stderr is not None
    assert "following" in following.stderr.readline()
    following.send_signal(signal.SIGINT)
    following.communicate(timeout=120)
    assert following.returncode == 0
    assert len(billing.ok("queue", "list", "--json").json) == 1


def test_tail_can_be_ended_while_the_database_is_away(database: Database) -> None:
    with Proxy(database) as proxy:
        penstock = CommandLine(proxy.dsn)
        penstock.ok("topic", "create", "orders")
        following = penstock.start("topic", "tail", "orders")
        assert following.stderr is not None
        assert "following" in following.stderr.readline()
        proxy.refusing = True
        proxy.cut()
        assert "trying again" in following.stderr.readline()
        following.send_signal(signal.SIGINT)
        _, err = following.communicate(timeout=30)
    assert following.returncode == 0
    assert err.endswith("ended\n")


def test_maintain_goes_on_when_the_database_is_back(database: Database) -> None:
    with Proxy(database) as proxy:
        running = CommandLine(proxy.dsn).start("maintain", "--every", "100ms", "--json")
        assert running.stdout is not None
        assert running.stderr is not None
        assert "maintaining" in running.stderr.readline()
        assert running.stdout.readline()
        proxy.cut()
        assert "trying again" in running.stderr.readline()
        # More than it can have written before.
        for _ in range(20):
            assert running.stdout.readline()
        running.send_signal(signal.SIGINT)
        running.communicate(timeout=30)
    assert running.returncode == 0


def test_a_message_is_shown_whole_with_its_attempts_and_its_state_everywhere(
    billing: CommandLine,
) -> None:
    billing.ok("queue", "create", "shipping", "--topic", "orders", "--start-at", "beginning")
    die(billing, 1)
    shown = billing.ok("message", "show", "billing", "1", "--json").json
    assert shown["payload"] == {"order": 7}
    assert shown["headers"] == {"region": "eu"}
    assert shown["states"] == {"billing": "dead", "shipping": "waiting"}
    assert (shown["error"], len(shown["history"])) == ("refused", 1)
    assert "refused" in billing.ok("message", "show", "billing", "1").out
    assert billing("message", "show", "billing", "99").code == 1


def test_waiting_messages_and_dead_letters_are_moved(billing: CommandLine) -> None:
    billing.ok("queue", "create", "by-hand")
    billing.ok("message", "publish", "orders", "8")
    die(billing, 1)
    moved: Any = billing.ok("message", "move", "billing", "--to", "by-hand", "--json").json
    assert moved == {"queue": "billing", "topic": "by-hand", "moved": 1}
    assert billing.ok("message", "move", "billing", "1", "--dead", "--to", "by-hand").code == 0
    found = billing.ok("message", "peek", "by-hand", "--json").lines
    assert [each["payload"] for each in found] == [8, {"order": 7}]
    assert found[1]["headers"]["penstock-original-id"] == 1
    assert found[1]["headers"]["region"] == "eu"
    assert billing.ok("dlq", "list", "--json").json == []


def test_a_move_to_a_queue_with_siblings_is_refused(billing: CommandLine) -> None:
    billing.ok("queue", "create", "one", "--topic", "shared")
    billing.ok("queue", "create", "two", "--topic", "shared")
    ran = billing("message", "move", "billing", "--to", "one")
    assert ran.code == 2
    assert "--to shared" in ran.err
    assert billing("message", "move", "billing", "--to", "nowhere").code == 1
    assert billing("message", "move", "billing", "1", "--to", "shared").code == 2
    assert billing("message", "move", "billing", "--to", "orders").code == 1
    assert billing.ok("queue", "stats", "billing", "--json").json[0]["pending_count"] == 1


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_shell_completes_nouns_verbs_and_options(shell: str) -> None:
    def completed(words: str) -> str:
        told = {"_PENSTOCK_COMPLETE": f"complete_{shell}", "COMP_WORDS": words}
        told |= {"COMP_CWORD": str(words.count(" ")), "_TYPER_COMPLETE_ARGS": words}
        if shell == "fish":
            told["_TYPER_COMPLETE_FISH_ACTION"] = "get-args"
        return CommandLine(None).ok(**told).out

    assert "queue" in completed("penstock qu")
    assert "export" in completed("penstock message ex")
    assert "--output" in completed("penstock message export --o")
