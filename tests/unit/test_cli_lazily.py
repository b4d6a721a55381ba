"""The command line imports what a command needs, and lists all commands without importing any."""

from __future__ import annotations

import os
import pkgutil
import subprocess
import sys
from typing import Any

import pytest
import typer

import penstock
import penstock.cli
from penstock.cli.app import Root, app, commands_of

HEAVY = ("psycopg", "penstock.client", "penstock.tasks", "penstock.worker", "penstock.sqs")
PROGRAM = """
import sys
from penstock.cli import main
try:
    main()
finally:
    heavy = [name for name in {heavy!r} if name in sys.modules]
    print("heavy:", *heavy, file=sys.stderr)
"""


def run(*words: str, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", PROGRAM.format(heavy=HEAVY), *words],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | environ,
    )


@pytest.mark.parametrize("word", ["--version", "--help"])
def test_asking_for_help_or_the_version_imports_no_driver(word: str):
    ran = run(word)
    assert ran.returncode == 0
    assert ran.stderr.splitlines()[-1] == "heavy:"


def test_a_command_imports_its_own_module():
    assert "psycopg" in run("topic", "--help").stderr.splitlines()[-1]


def completed(line: str) -> tuple[list[str], str]:
    ran = run(_PENSTOCK_COMPLETE="complete_bash", COMP_WORDS=line, COMP_CWORD=str(line.count(" ")))
    return ran.stdout.split(), ran.stderr.splitlines()[-1]


def test_nouns_are_completed_without_importing_them():
    assert completed("penstock to") == (["topic"], "heavy:")


def test_verbs_are_completed_as_well():
    assert completed("penstock task re")[0] == ["retry", "replay"]


@pytest.mark.parametrize("entry", Root.entries, ids=lambda entry: entry.name)
def test_the_list_says_what_the_command_says(entry: Any):
    real: Any = typer.main.get_command(app)
    words = real.commands[entry.name].help.partition("\n\n")[0]
    assert entry.help == " ".join(words.split())


def test_every_command_of_a_module_is_listed():
    modules = [each.name for each in pkgutil.iter_modules(penstock.cli.__path__)]
    commands = [
        name for each in modules if each not in ("app", "__main__") for name in commands_of(each)
    ]
    assert sorted(commands) == sorted(entry.name for entry in Root.entries)


def test_a_word_that_is_no_command_is_told_with_the_nearest():
    ran = run("topik")
    assert ran.returncode == 2
    assert "topic" in ran.stderr


def test_every_public_name_of_the_package_exists():
    for name in penstock.__all__:
        assert getattr(penstock, name) is not None
    assert set(penstock.__all__) == {"__version__", *penstock._HOME_OF}
    assert set(penstock.__all__) <= set(dir(penstock))
    with pytest.raises(AttributeError):
        _ = penstock.teleport


def test_the_parts_of_the_package_are_there_without_a_further_import():
    asked = (
        "import penstock; penstock.sync.connect, penstock.tasks.connect, penstock.errors.NoReply"
    )
    assert subprocess.run([sys.executable, "-c", asked], check=False).returncode == 0
