"""CONTRIBUTING describes what is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.pages import ROOT

PAGE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
#: A folder or a file, written whole or from the package's folder on.
PATHS = sorted(set(re.findall(r"`((?:[\w.-]+/)+[\w.-]*)`", PAGE)))
STARTS = (ROOT, *(ROOT / "src/penstock" / each for each in ("", "client", "sqs")))
#: What a run makes.
MADE = ("build/",)


@pytest.mark.parametrize("path", PATHS)
def test_a_path_that_contributing_names_exists(path: str) -> None:
    if not path.startswith(MADE):
        assert any((start / path).exists() for start in STARTS)


def test_every_folder_of_the_package_has_its_line() -> None:
    folders = [
        path for path in (ROOT / "src/penstock").iterdir() if (path / "__init__.py").exists()
    ]
    assert [path.name for path in folders if f"{path.name}/`" not in PAGE] == []


def test_every_target_that_contributing_names_exists() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"make ([a-z-]+)", PAGE)) - {"alone"}
    assert {
        each for each in targets if not re.search(rf"^{each}:", makefile, re.MULTILINE)
    } == set()


def test_workflows_and_hooks_run_targets_that_exist() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    files = [*Path(ROOT / ".github/workflows").glob("*.yml"), ROOT / ".pre-commit-config.yaml"]
    commands = [
        command
        for path in files
        for command in re.findall(r"(?:run|entry): (.+)", path.read_text(encoding="utf-8"))
    ]
    targets = {found[1] for each in commands if (found := re.match(r"make ([a-z-]+)", each))}
    assert {"dist", "pytest", "prove", "bench", "test", "test-lowest"} <= targets
    assert {
        each for each in targets if not re.search(rf"^{each}:", makefile, re.MULTILINE)
    } == set()
