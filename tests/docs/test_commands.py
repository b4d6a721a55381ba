"""Commands printed in the documentation exist: their subcommands, options, files and targets."""

from __future__ import annotations

import re
import shlex
from itertools import pairwise
from typing import Any

import pytest
import typer

from penstock.cli.app import app
from tests.docs.pages import ROOT, written_pages


def _commands() -> list[tuple[str, str]]:
    return [
        (f"{page.name}:{block.first_line}", line.strip())
        for page in written_pages()
        for block in page.blocks("sh")
        for line in "\n".join(block.lines).replace("\\\n", " ").splitlines()
        if line.strip() and not line.lstrip().startswith("#")
    ]


def _of(program: str) -> list[Any]:
    return [
        pytest.param(_words(line)[1:], id=f"{place} {line[:60]}")
        for place, line in _commands()
        if _words(line)[0] == program
    ]


def _words(line: str) -> list[str]:
    """The words of the first command of a line, without variables set for it and redirections."""
    words = shlex.split(line, comments=True)
    while words and re.fullmatch(r"[A-Z_]+=.*", words[0]):
        words = words[1:]
    for place, word in enumerate(words):
        if word in {"|", "<", ">", ">>", "&&", ";"}:
            return words[:place]
    return words


@pytest.mark.parametrize("words", _of("penstock"))
def test_penstock_command_is_understood(words: list[str]) -> None:
    command: Any = typer.main.get_command(app)
    context = None
    while hasattr(command, "commands"):
        # Options that may stand before the noun.
        while words and words[0].startswith("--"):
            assert words[0] in {"--json", "--dsn"}, words
            words = words[1 + (words[0] == "--dsn") :]
        assert words[0] in command.commands, words
        command, words = command.commands[words[0]], words[1:]
    context = command.make_context("penstock", list(words))
    context.close()


@pytest.mark.parametrize("words", _of("psql"))
def test_file_given_to_psql_exists(words: list[str]) -> None:
    for flag, file in pairwise(words):
        if flag == "-f" and not file.startswith(("$", "/")):
            assert (ROOT / file).is_file(), file


@pytest.mark.parametrize("words", _of("make"))
def test_make_target_exists(words: list[str]) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for word in words:
        if "=" not in word and not word.startswith("-"):
            assert re.search(rf"^{re.escape(word)}:", makefile, re.MULTILINE), word


def test_settings_named_in_the_pages_exist() -> None:
    sql = (ROOT / "sql" / "maintenance" / "configure.sql").read_text(encoding="utf-8")
    named = {
        setting
        for page in written_pages()
        for setting in re.findall(r"penstock\.configure\('(\w+)'", page.text)
    }
    assert named
    assert {setting for setting in named if f"'{setting}'" not in sql} == set()
