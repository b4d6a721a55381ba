"""The longer tests and the planted mutations, which bring their own sabotage."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from prove.model import Outcome, Part

if TYPE_CHECKING:
    from prove.model import Take

ROOT = Path(__file__).resolve().parents[2]


def tests(take: Take) -> Outcome:
    """Every test that is marked for the programme."""
    words = ["-q", "-m", "prove", "--timeout", "1800"]
    words += ["-k", "state_machine"] if take.quick else []
    said, code = _run(take, sys.executable, "-m", "pytest", *words)
    counts = {
        outcome: int(count)
        for count, outcome in re.findall(r"(\d+) (passed|failed|skipped|error)", said)
    }
    failed = counts.get("failed", 0) + counts.get("error", 0)
    return Outcome(counts, {"failed": failed or 1} if code else {})


def mutations(take: Take) -> Outcome:
    """Every fault that is planted in the engine or the task stores."""
    words = ["--only", "ack-any-token"] if take.quick else []
    said, code = _run(take, sys.executable, "tools/mutations.py", *words)
    found = re.search(r"(\d+) of (\d+) caught", said)
    if found is None:
        return Outcome({}, {"not run": 1})
    caught, planted = int(found[1]), int(found[2])
    broken = {"survived": planted - caught} if code else {}
    return Outcome({"mutations": planted, "caught": caught}, broken)


def _run(take: Take, *command: str) -> tuple[str, int]:
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    (take.folder / "output.txt").write_text(done.stdout + done.stderr, encoding="utf-8")
    return done.stdout, done.returncode


TESTS = Part(
    name="long-tests",
    promise="What takes too long for every change holds all the same.",
    how="`pytest -m prove`: deeper state machines, redelivery on time, a soak of a million "
    "messages, Spark and the task stores under faults.",
    sabotage="each of these tests has its own twin beside it",
    breaks=frozenset(),
    play=tests,
)
MUTATIONS = Part(
    name="mutations",
    promise="The tests notice when a promise is broken.",
    how="Each planted fault is a small change of a copy of the engine or the task stores; the "
    "tests run on the copy.",
    sabotage="every mutation is one",
    breaks=frozenset(),
    play=mutations,
)
