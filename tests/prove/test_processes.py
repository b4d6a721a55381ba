"""Killing a process with its descendants, some of which end by themselves meanwhile."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import psutil

from prove.processes import kill_family

if TYPE_CHECKING:
    import pytest

# A child of its own, in a session of its own, as PostgreSQL's backends are.
_PARENT = """
import subprocess, sys
child = subprocess.Popen(["sleep", "600"], start_new_session=True)
print(child.pid, flush=True)
child.wait()
"""


def started() -> tuple[subprocess.Popen[bytes], psutil.Process]:
    parent = subprocess.Popen([sys.executable, "-c", _PARENT], stdout=subprocess.PIPE)
    assert parent.stdout is not None
    with parent.stdout:
        return parent, psutil.Process(int(parent.stdout.readline()))


def ended() -> psutil.Process:
    process = subprocess.Popen(["true"])
    found = psutil.Process(process.pid)
    process.wait()
    return found


def test_kills_the_process_and_its_descendants() -> None:
    parent, child = started()
    kill_family(parent)
    assert parent.returncode == -9
    assert not child.is_running() or child.status() == psutil.STATUS_ZOMBIE


def test_descendant_that_ended_after_the_listing_is_passed_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    parent, child = started()
    monkeypatch.setattr(psutil.Process, "children", lambda *_, **__: [ended(), child])
    kill_family(parent)
    assert not child.is_running() or child.status() == psutil.STATUS_ZOMBIE


def test_process_that_has_ended_is_left_alone() -> None:
    process = subprocess.Popen(["true"])
    process.wait()
    kill_family(process)
    assert process.returncode == 0
