"""The demo: it ends by itself, its figures add up, and nothing of it stays behind."""

from __future__ import annotations

import shlex
import signal
import time
from typing import TYPE_CHECKING, Any

import pytest

from penstock.cli import demo
from penstock.cli.demo import PREFIX
from penstock.cli.demo_checks import Plan, Record
from tests.acceptance.commandline import CommandLine
from tests.fixtures.spark import SHORT_LIVED_ENVIRONMENT

if TYPE_CHECKING:
    from pathlib import Path

    import psycopg

    from tests.fixtures.databases import Connect, Database


@pytest.fixture
def penstock(database: Database) -> CommandLine:
    return CommandLine(database.dsn)


def demo_topics(db: psycopg.Connection[Any]) -> list[str]:
    rows = db.execute("select name from penstock.list_topics()").fetchall()
    return [name for (name,) in rows if name.startswith(PREFIX)]


def test_the_demo_adds_up_and_cleans_up(penstock: CommandLine, db: psycopg.Connection[Any]):
    started = time.monotonic()
    report = penstock.ok("demo", "--json", "--no-spark").json
    assert time.monotonic() - started < 60
    assert report["ok"] is True
    assert all(finding["ok"] for finding in report["findings"])
    queues = {line["queue"]: line for line in report["queues"]}
    assert queues.keys() == {"billing", "shipping", "analytics"}
    for line in queues.values():
        assert line["published"] == line["done"] + line["dead"] > 1000
        assert 0 < line["p50_ms"] <= line["p95_ms"] <= line["p99_ms"]
    assert queues["billing"]["dead"] == 1
    assert queues["billing"]["retried"] > 10
    assert demo_topics(db) == []


def test_it_ends_with_an_archive_and_a_report(
    penstock: CommandLine, db: psycopg.Connection[Any], tmp_path: Path
):
    words = ("demo", "--json", "--out", str(tmp_path / "out"))
    report = penstock.ok(*words, **SHORT_LIVED_ENVIRONMENT).json
    assert report["ok"] is True
    [archived] = [each["text"] for each in report["findings"] if each["text"].startswith("archive")]
    assert f"of {report['queues'][0]['published']} orders" in archived
    assert report["archive"] == str(tmp_path / "out" / "orders")
    page = (tmp_path / "out" / "report.html").read_text()
    assert str(tmp_path / "out" / "report.html") == report["report"]
    # Both tell the same, counted in two different ways.
    for line in report["queues"]:
        assert f'>{line["queue"]}</h3><div class="big">{line["done"]:,}</div>' in page
    assert demo_topics(db) == []


def test_without_a_terminal_it_prints_the_summary_only(penstock: CommandLine):
    ran = penstock.ok("demo", "--no-spark")
    assert "\x1b" not in ran.out
    assert ran.out.count("billing: ") == 2
    assert "✗" not in ran.out
    assert "overtook" in ran.out
    assert "Try next:" in ran.out


def test_what_it_says_to_try_next_works(penstock: CommandLine):
    for step in demo.STEPS:
        penstock.ok(*shlex.split(step))


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM], ids=lambda s: s.name)
def test_an_interrupted_demo_cleans_up(
    penstock: CommandLine, db: psycopg.Connection[Any], how: signal.Signals
):
    running = penstock.start("demo", "--no-spark")
    await_stream(running, db)
    running.send_signal(how)
    _, err = running.communicate(timeout=30)
    assert running.returncode == 130, err
    assert "Traceback" not in err
    assert demo_topics(db) == []


def test_left_overs_of_a_killed_demo_are_removed_by_the_next(
    penstock: CommandLine, db: psycopg.Connection[Any]
):
    running = penstock.start("demo", "--no-spark")
    await_stream(running, db)
    running.kill()
    running.communicate(timeout=30)
    assert len(demo_topics(db)) == 1
    deadline = time.monotonic() + 30
    # The killed process's sessions end when the server notices.
    while not demo.remove_abandoned(db):
        assert time.monotonic() < deadline
    assert demo_topics(db) == []


def test_a_demo_that_runs_is_not_removed(connect: Connect):
    one, other = connect(), connect()
    topic = f"{PREFIX}1"
    demo.create_topic(one, topic)
    assert demo.remove_abandoned(other) == 0
    assert demo_topics(other) == [topic]
    one.close()


def test_a_message_that_went_missing_is_noticed(connect: Connect):
    connection, topic = connect(), f"{PREFIX}1"
    demo.create_topic(connection, topic)
    result = demo.collect(connection, Plan.made(), topic, Record())
    assert not all(finding.ok for finding in result.findings())


def await_stream(running: Any, db: psycopg.Connection[Any]) -> None:
    """Wait until the demo has created its topic and begun to publish."""
    consumed = """
        select s.total_count from penstock.list_queues() q
        cross join lateral penstock.get_queue_statistics(q.name) s
        where q.name like %s and s.total_count > 0"""
    while not db.execute(consumed, (f"{PREFIX}%-analytics",)).fetchone():
        assert running.poll() is None, running.communicate()
