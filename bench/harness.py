"""One run: a server, the chosen contestants in the chosen scenarios, and the report."""

from __future__ import annotations

import datetime as dt
import platform
import subprocess
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from bench import limits, measure, record, report, targets
from bench.arena import Arena
from bench.contestants import entry, gather
from bench.scenarios import SCENARIOS
from bench.server import SETTINGS, running

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from bench.contestants import Entry
    from bench.model import Result
    from bench.scenarios import Scenario
    from bench.server import Server
    from bench.sizes import Sizes
    from bench.targets import Verdict

FIRST = TaskID(0)
PACKAGES = ("psycopg", "pgmq", "pgqueuer", "procrastinate", "asyncpg", "chancy", "awa-pg")


@dataclass(frozen=True, slots=True)
class Request:
    scenarios: Sequence[str]
    contestants: Sequence[str]
    sizes: Sizes
    programs: str
    out: Path
    #: The install.sql of another version of the engine, to be measured beside this one.
    other_engine: Path | None = None


@dataclass(frozen=True, slots=True)
class Run:
    results: Sequence[Result]
    verdicts: Sequence[Verdict]
    json: Path
    png: Path


def execute(request: Request, console: Console) -> Run:
    with running(request.programs) as server:
        environment = _environment(server) | _other(request.other_engine)
        console.print(_headline(environment))
        environment["limits"] = limits.measure(server)
        console.print(limits.sentence(environment["limits"]))
        results = _measure(request, server, console)
    verdicts = targets.judge(results, request.sizes.edge)
    titles = {name: SCENARIOS[name].title for name in request.scenarios}
    report.show(console, titles, results, verdicts, request.sizes.edge)
    return _write(request, environment, titles, Run(results, verdicts, Path(), Path()))


def _measure(request: Request, server: Server, console: Console) -> list[Result]:
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    results: list[Result] = []
    with Progress(*columns, TextColumn("{task.fields[doing]}"), console=console) as progress:
        contestants = gather(request.contestants, request.other_engine)
        arena = Arena(server, contestants, request.sizes, Meter(progress))
        for name in request.scenarios:
            arena.meter.begin(name)
            results += SCENARIOS[name].run(_arena_for(SCENARIOS[name], arena))
            arena.meter.end()
    return results


@dataclass
class Meter:
    """Shows how far the current scenario is and what it is doing."""

    progress: Progress
    task: TaskID = FIRST

    def begin(self, name: str) -> None:
        self.task = self.progress.add_task(name, total=1.0, doing="")

    def say(self, doing: str) -> None:
        self.progress.update(self.task, doing=doing)

    def advance(self, share: float) -> None:
        self.progress.advance(self.task, share)

    def end(self) -> None:
        self.progress.update(self.task, completed=1.0, doing="done")


def _arena_for(scenario: Scenario, arena: Arena) -> Arena:
    """The same arena without contestants that tell nothing new in this scenario."""
    fitting = [
        contestant for contestant in arena.contestants if _tells(entry(contestant), scenario)
    ]
    return replace(arena, contestants=fitting)


def _tells(known: Entry, scenario: Scenario) -> bool:
    if known.only:
        return scenario.name in known.only
    return scenario.claims or not known.durable_claims


def _write(request: Request, environment: dict[str, Any], titles: dict[str, str], run: Run) -> Run:
    request.out.mkdir(parents=True, exist_ok=True)
    stem = dt.datetime.now(dt.UTC).strftime("%Y%m%d-%H%M%S")
    files = replace(run, json=request.out / f"{stem}.json", png=request.out / f"{stem}.png")
    record.write(files.json, environment, request.sizes, run.results, run.verdicts)
    # Imported when there is something to draw: --help needs no matplotlib.
    from bench import plot  # noqa: PLC0415

    plot.draw(files.png, titles, run.results, _headline(environment))
    return files


def _environment(server: Server) -> dict[str, Any]:
    return {
        "at": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        "commit": _commit(),
        "postgresql": server.version,
        "python": platform.python_version(),
        "packages": {name: _version(name) for name in PACKAGES},
        "settings": dict(SETTINGS),
        **measure.machine(),
    }


def _other(engine: Path | None) -> dict[str, Any]:
    return {"other_engine": _commit(engine.parent)} if engine else {}


def _headline(environment: dict[str, Any]) -> str:
    return (
        f"PostgreSQL {environment['postgresql']}, {environment['cpus']} CPUs,"
        f" load {environment['load']}, commit {environment['commit']}"
    )


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _commit(folder: Path = Path(__file__).parent) -> str | None:
    words = ["git", "describe", "--always", "--dirty"]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
    return done.stdout.strip() or None
