"""Every example runs, and prints what its page says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.docs.pages import Page

if TYPE_CHECKING:
    from tests.fixtures.databases import Database

FOLDER = Path(__file__).resolve().parents[2] / "examples"
REFUSED = re.compile(r"(?:message|task) \S+ of '\w+' failed: (?:Dead|Retry): ")
STORIES = sorted(path.parent for path in FOLDER.glob("*/README.md"))


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.name)
def test_an_example_prints_what_its_page_says(story: Path, database: Database) -> None:
    (program,) = story.glob("*.py")
    done = subprocess.run(
        [sys.executable, "-W", "error", str(program)],
        env={**os.environ, "PENSTOCK_DSN": database.tcp_dsn},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    (promised,) = Page(story / "README.md").blocks("text")
    assert done.stdout.splitlines() == list(promised.lines)
    # One story has a task that its handler refuses, which the worker logs.  All else is quiet.
    logged = [REFUSED.match(line) is not None for line in done.stderr.splitlines()]
    assert logged == [True] * (story.name == "tasks")


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.name)
def test_an_example_is_one_short_file_that_its_page_and_the_list_name(story: Path) -> None:
    (program,) = story.glob("*.py")
    assert len(program.read_text(encoding="utf-8").splitlines()) <= 70
    assert f"examples/{story.name}/{program.name}" in Page(story / "README.md").text
    assert f"]({story.name}/README.md)" in (FOLDER / "README.md").read_text(encoding="utf-8")
