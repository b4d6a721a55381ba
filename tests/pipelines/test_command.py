"""penstock pipeline: a pipeline as a person runs it."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
import typer

from penstock.cli.app import app
from tests.acceptance.commandline import CommandLine

if TYPE_CHECKING:
    from pathlib import Path

    from tests.fixtures.databases import Database


@pytest.fixture
def penstock(database: Database, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> CommandLine:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "home"))
    return CommandLine(database.tcp_dsn)


def test_an_archive_by_command_ends_with_a_summary(
    penstock: CommandLine, database: Database, tmp_path: Path
):
    with psycopg.connect(database.dsn, autocommit=True) as connection:
        connection.execute("select penstock.create_topic('orders')")
        connection.execute(
            "select penstock.publish_message('orders', '1') from generate_series(1, 5)"
        )
    ran = penstock.ok(
        "pipeline", "archive", "orders", "--to", str(tmp_path / "lake"), "--once", "--json"
    )
    assert {name: ran.json[name] for name in ("pipeline", "rows", "batches", "lag")} == {
        "pipeline": "archive", "rows": 5, "batches": 1, "lag": 0,
    }  # fmt: skip
    # Nothing of Spark's own talk reaches the person.
    assert ran.err == ""
    assert (tmp_path / "home" / "penstock" / "pipelines" / "spark.log").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["archive", "--to", "x"], "Missing argument"),
        (["ingest", "x", "--to", "t", "--header", "nonsense"], "is not NAME=VALUE"),
        (["route", "a", "--to", "b", "--sql", "select 1"], "choose one of"),
        (["replay", "--log", "a", "--to", "b", "--since", "yesterday"], "is no time"),
        (["archive", "a", "--to", "x", "--every", "often"], "is not a duration"),
    ],
)
def test_a_mistyped_command_costs_no_spark(penstock: CommandLine, words: list[str], said: str):
    ran = penstock("pipeline", *words)
    assert ran.code == 2
    assert said in " ".join((ran.err + ran.out).split())


def test_every_command_has_help_with_an_example():
    root: Any = typer.main.get_command(app)
    waiting, seen = [root.commands["pipeline"]], 0
    while waiting:
        command = waiting.pop()
        assert command.help
        assert command.epilog.startswith("Example: penstock pipeline ")
        waiting += getattr(command, "commands", {}).values()
        seen += 1
    assert seen == 13


def test_the_command_line_does_not_wait_for_spark():
    program = (
        "import sys, penstock.cli; sys.exit('pyspark' in sys.modules or 'pyarrow' in sys.modules)"
    )
    assert (
        subprocess.run([sys.executable, "-c", program], env=os.environ, check=False).returncode == 0
    )
