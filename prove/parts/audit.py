"""Auditors: bandit over the source, pip-audit over what it stands on."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prove.attack.served import ROOT
from prove.model import Outcome, Part

if TYPE_CHECKING:
    from prove.model import Take

_CARELESS = """\
import pickle, subprocess


def run(message):
    subprocess.run(message, shell=True)
    return eval(pickle.loads(message))
"""
_PATIENCE_SECONDS = 300
# What stands there: parameters of a call, a count of columns, names of settings, a number, and what
# processes of one worker send each other.
_LOOKED_AT = (
    ("client/calls/messages.py", "{options}"),
    ("client/calls/messages.py", "_MESSAGE.count"),
    ("integrations/django/configuration.py", "_NAMES"),
    ("pipelines/analyse_figures.py", 'f"""select queue,'),
    ("worker/process_pool.py", "import pickle"),
)


def play(take: Take) -> Outcome:
    places = [ROOT / "src"]
    if take.sabotaged:
        (take.folder / "careless.py").write_text(_CARELESS, encoding="utf-8")
        places.append(take.folder)
    report = bandit(*places)
    found = [
        f"{each['test_id']} {each['issue_text']} {each['filename']}:{each['line_number']}"
        for each in report["results"]
        if not _excused(each)
    ]
    excused = len(report["results"]) - len(found)
    for line in found[:20]:
        take.say(line)
    known, audited = (0, None) if take.sabotaged else _packages(take)
    counts = {
        "lines of source": report["metrics"]["_totals"]["loc"],
        "lines excused with a reason": excused,
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


def _excused(finding: Any) -> bool:
    """Whether it was reviewed: on the line with ruff's number of the rule, or here."""
    path = Path(finding["filename"])
    source = path.read_text(encoding="utf-8")
    first, last = min(finding["line_range"]), max(finding["line_range"])
    number = f"S{finding['test_id'].removeprefix('B')}"
    lines = source.splitlines()[first - 1 : last]
    if any("noqa" in line and number in line for line in lines):
        return True
    if finding["test_id"] == "B608" and _is_of_constants(source, first):
        return True
    return any(str(path).endswith(file) and word in lines[0] for file, word in _LOOKED_AT)


def _is_of_constants(source: str, line: int) -> bool:
    """Whether the text is put together of the module's own constants alone."""
    texts = [
        node
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.JoinedStr) and node.lineno <= line <= (node.end_lineno or 0)
    ]
    parts = [part.value for text in texts for part in text.values if not _is_text(part)]
    return bool(parts) and all(map(_is_constant, parts))


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant)


def _is_constant(node: ast.expr) -> bool:
    match node:
        case ast.Name(name):
            return name.isupper()
        case ast.Call(ast.Name(), arguments, []):
            return all(map(_is_text, arguments))
        case _:
            return _is_text(node)


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
        found = json.loads(done.stdout)["dependencies"]
    except (ValueError, KeyError):
        found = [{"skip_reason": (done.stderr.strip().splitlines() or ["no answer"])[-1]}]
    packages = [each for each in found if "skip_reason" not in each]
    if not packages:
        # A mirror of packages knows nothing of vulnerabilities, and pip-audit calls that clean.
        reason = found[0]["skip_reason"][:200] if found else "nothing to ask about"
        take.say(f"pip-audit SKIPPED, no service of vulnerabilities answers: {reason}")
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
