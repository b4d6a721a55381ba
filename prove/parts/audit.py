"""Auditors: bandit over the source, pip-audit over what it stands on."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

from prove.attack.served import ROOT
from prove.model import Outcome, Part

if TYPE_CHECKING:
    from pathlib import Path

    from prove.model import Take

_CARELESS = """\
import pickle, subprocess


def run(message):
    subprocess.run(message, shell=True)
    return eval(pickle.loads(message))
"""
_PATIENCE_SECONDS = 300


def play(take: Take) -> Outcome:
    places = [ROOT / "src"]
    if take.sabotaged:
        (take.folder / "careless.py").write_text(_CARELESS, encoding="utf-8")
        places.append(take.folder)
    report = bandit(*places)
    found = [
        f"{each['test_id']} {each['issue_text']} {each['filename']}:{each['line_number']}"
        for each in report["results"]
    ]
    for line in found[:20]:
        take.say(line)
    known, audited = (0, None) if take.sabotaged else _packages(take)
    counts = {
        "lines of source": report["metrics"]["_totals"]["loc"],
        "findings of bandit": len(found),
    }
    if audited is not None:
        counts |= {"packages audited": audited, "known vulnerabilities": known}
    broken = {"findings of bandit": len(found), "known vulnerabilities": known}
    return Outcome(counts, {name: count for name, count in broken.items() if count})


def bandit(*places: Path) -> Any:
    words = ["-m", "bandit", "-q", "-r", "-c", str(ROOT / "pyproject.toml"), "-f", "json"]
    done = subprocess.run(
        [sys.executable, *words, *map(str, places)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=_PATIENCE_SECONDS,
        check=False,
    )
    return json.loads(done.stdout)


def _packages(take: Take) -> tuple[int, int | None]:
    """Known vulnerabilities and packages asked about; None where nobody could be asked."""
    words = ["-m", "pip_audit", "--format", "json", "--progress-spinner", "off", "--timeout", "15"]
    words += ["--no-deps", "--disable-pip", "--requirement", str(ROOT / "constraints.txt")]
    done = subprocess.run(
        [sys.executable, *words],
        cwd=take.folder,
        capture_output=True,
        text=True,
        timeout=_PATIENCE_SECONDS,
        check=False,
    )
    try:
        packages = json.loads(done.stdout)["dependencies"]
    except (ValueError, KeyError):
        reason = (done.stderr.strip().splitlines() or ["no answer"])[-1]
        take.say(f"pip-audit SKIPPED, no service of vulnerabilities to ask: {reason[:200]}")
        return 0, None
    known = [(each["name"], fault["id"]) for each in packages for fault in each.get("vulns", [])]
    for name, number in known:
        take.say(f"{name}: {number}")
    return len(known), len(packages)


PART = Part(
    name="audit",
    promise="Auditors that others wrote find nothing in the source, nor in what it depends on.",
    how="bandit over all of `src`; pip-audit over every version in constraints.txt, where a "
    "service of known vulnerabilities can be asked (a run without one has no line for it below).",
    sabotage="a module that runs, evaluates and unpickles what it is sent",
    breaks=frozenset({"findings of bandit"}),
    play=play,
    enough={"lines of source": 10_000},
)
