"""The tool that shows which files an operation walks through."""

from __future__ import annotations

import json
import subprocess
import sys

from tests.docs.pages import ROOT

TOOL = ROOT / "tools" / "walk.py"


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, TOOL, *words], capture_output=True, text=True, check=False, cwd=ROOT
    )


def test_every_walk_is_shown_from_its_first_file() -> None:
    ran = run("--json")
    assert ran.returncode == 0, ran.stderr
    walks = json.loads(ran.stdout)
    first = {name: next(iter(files)).partition("/")[0] for name, files in walks.items()}
    assert first["publish"] == "client"
    assert first["sqs-send"] == "sqs"
    assert first["task-enqueue"] == "tasks"
    assert {"client", "worker"} <= {file.partition("/")[0] for file in walks["consume"]}
    for files in walks.values():
        assert all((ROOT / "src/penstock" / file).is_file() for file in files)
        assert min(files.values()) > 0


def test_an_unknown_walk_is_refused_and_help_has_an_example() -> None:
    assert run("fly").returncode == 2
    assert "python tools/walk.py consume --calls" in run("--help").stdout
