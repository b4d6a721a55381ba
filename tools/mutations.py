"""Plant faults in a copy of the project, one at a time, and see whether the tests notice.

A test suite is worth what it catches.  Each mutation is a small textual change, of the engine's SQL
or of the task stores, that breaks one promise; all stand in `tools/planted`.  The copy is installed
by the tests' own fixtures, on one server; the tests that should notice run first, then all others
that look there.  A mutation that no test notices has SURVIVED: write the test that was missing.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tools.planted.mutation import Mutation

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tools.planted import engine, tasks  # noqa: E402

MUTATIONS = (*engine.MUTATIONS, *tasks.MUTATIONS)
COPIED = ("sql", "src", "tests", "prove", "tools", "docs", "examples", "pyproject.toml")
EXAMPLES = """\
examples:
  python tools/mutations.py --list                 what is planted, and where
  python tools/mutations.py --only ack-any-token   one mutation, with the tests' output on failure
  python tools/mutations.py --check                whether every text to replace is still there
"""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of a mutation."""

    mutation: Mutation
    caught_by: str | None
    seconds: float
    trouble: str = ""  # the run told nothing: the mutated engine doesn't install, or pytest broke

    @property
    def good(self) -> bool:
        return self.caught_by is not None and not self.trouble


def missing(mutation: Mutation) -> str | None:
    """Why the mutation can't be planted any more, or None."""
    path = ROOT / mutation.path
    found = path.read_text(encoding="utf-8").count(mutation.old) if path.is_file() else 0
    if found == mutation.times:
        return None
    return f"{mutation.name}: {mutation.path} has its text {found} times, not {mutation.times}"


@contextmanager
def planted(mutation: Mutation | None) -> Iterator[Path]:
    """A copy of what the tests need, with the fault in it."""
    with tempfile.TemporaryDirectory(prefix="penstock-mutation-") as folder:
        copy = Path(folder)
        ignored = shutil.ignore_patterns("__pycache__", ".hypothesis")
        for name in COPIED:
            source = ROOT / name
            if source.is_dir():
                shutil.copytree(source, copy / name, ignore=ignored)
            else:
                shutil.copy(source, copy / name)
        if mutation is not None:
            path = copy / mutation.path
            text = path.read_text(encoding="utf-8")
            path.write_text(text.replace(mutation.old, mutation.new), encoding="utf-8")
        yield copy


def already_red(chosen: list[Mutation], server: str) -> str | None:
    """A test that fails without any fault, and would seem to catch one."""
    with planted(None) as copy:
        for suite in dict.fromkeys(mutation.suite for mutation in chosen):
            mine = [mutation for mutation in chosen if mutation.suite == suite]
            paths = dict.fromkeys(path for each in mine for path in (*each.tests, suite.machine))
            there = [path for path in paths if (ROOT / path).exists()]
            failed, trouble = run(copy, there, suite.server or server)
            if failed or trouble:
                return failed or trouble
    return None


def judge(mutation: Mutation, server: str) -> Verdict:
    """Run the tests on the mutated engine, the likely ones first."""
    started = time.monotonic()
    caught, trouble = None, ""
    with planted(mutation) as copy:
        suite = mutation.suite
        for paths in (mutation.tests, (suite.machine,), suite.everything):
            there = [path for path in paths if (ROOT / path).exists()]
            if not there or caught or trouble:
                continue
            caught, trouble = run(copy, there, suite.server or server)
            if (
                caught
                and paths is suite.everything
                and fails_anyway(caught, suite.server or server)
            ):
                caught, trouble = None, f"{caught} fails without any mutation"
    return Verdict(mutation, caught, time.monotonic() - started, trouble)


def fails_anyway(test: str, server: str) -> bool:
    """Whether a test that was not expected to fail has nothing to do with the mutation."""
    with planted(None) as copy:
        return run(copy, [test], server) != (None, "")


def run(copy: Path, paths: list[str], server: str) -> tuple[str | None, str]:
    """The first test that fails, and what went wrong with the run itself."""
    words = ["-q", "-x", "-p", "no:cacheprovider", "--tb=line", "--timeout", "600"]
    # This one looks for the very texts that mutations replace.
    words += ["--ignore", "tests/conformance/test_mutations.py"]
    command = [sys.executable, "-m", "pytest", *words, "--server", server, *paths]
    environment = os.environ | {
        "PYTHONPATH": str(copy / "src"),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PENSTOCK_NO_SHRINK": "1",
    }
    done = subprocess.run(
        command, cwd=copy, env=environment, capture_output=True, text=True, check=False
    )
    failed = re.search(r"^FAILED (\S+?::[^\s\[]+)", done.stdout, re.MULTILINE)
    if done.returncode == 0:
        return None, ""
    if done.returncode == 1 and failed:
        return failed[1], ""
    return None, (done.stdout + done.stderr).strip()[-2000:] or f"pytest gave {done.returncode}"


def show(verdicts: list[Verdict], console: Console) -> None:
    """The table, and the output of runs that broke."""
    table = Table("mutation", "breaks", "caught by", "seconds", title="planted mutations")
    for verdict in verdicts:
        outcome = verdict.caught_by or ("[red]BROKEN" if verdict.trouble else "[red]SURVIVED")
        outcome = outcome.replace("tests/", "")
        mutation = verdict.mutation
        table.add_row(mutation.name, mutation.breaks, outcome, f"{verdict.seconds:.0f}")
    console.print(table)
    for verdict in verdicts:
        if verdict.trouble:
            console.print(f"[red]{verdict.mutation.name}[/] did not run:\n{verdict.trouble}")
    caught = sum(verdict.good for verdict in verdicts)
    console.print(f"{caught} of {len(verdicts)} caught")


def show_list(mutations: list[Mutation], console: Console) -> None:
    table = Table("mutation", "breaks", "file", title="mutations")
    for mutation in mutations:
        table.add_row(mutation.name, mutation.breaks, mutation.path)
    console.print(table)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--list", action="store_true", help="show the mutations and stop")
    parser.add_argument("--check", action="store_true", help="only see whether all can be planted")
    parser.add_argument(
        "--only", metavar="NAME", action="append", help="this mutation (repeatable)"
    )
    parser.add_argument("--server", default="pg18", help="the server to test on (pg18)")
    parser.add_argument("--jobs", type=int, default=2, help="mutations at a time (2)")
    return parser.parse_args()


def main() -> int:
    given = arguments()
    console = Console(soft_wrap=not sys.stdout.isatty())
    known = {mutation.name: mutation for mutation in MUTATIONS}
    if unknown := set(given.only or ()) - set(known):
        console.print(f"[red]no such mutation: {', '.join(sorted(unknown))}; see --list")
        return 2
    chosen = [known[name] for name in given.only or known]
    if given.list:
        show_list(chosen, console)
        return 0
    if gone := [why for mutation in chosen if (why := missing(mutation))]:
        console.print("[red]the code has changed; bring these up to date:\n" + "\n".join(gone))
        return 1
    if given.check:
        console.print(f"{len(chosen)} mutations can be planted")
        return 0
    if red := already_red(chosen, given.server):
        console.print(f"[red]without any mutation the tests must pass, but:[/] {red}")
        return 1
    verdicts: list[Verdict] = []
    with ThreadPoolExecutor(given.jobs) as pool:
        for verdict in pool.map(lambda mutation: judge(mutation, given.server), chosen):
            verdicts.append(verdict)
            said = "caught" if verdict.good else "[red]not caught[/]"
            console.print(f"{len(verdicts)}/{len(chosen)} {verdict.mutation.name}: {said}")
    show(verdicts, console)
    return 0 if all(verdict.good for verdict in verdicts) else 1


if __name__ == "__main__":
    sys.exit(main())
