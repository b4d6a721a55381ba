"""The demo from curtain to curtain: build, play, watch, audit, take down."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from psycopg import Connection
from rich.console import Console
from rich.live import Live

from penstock.cli.demo import audit, screen, stage
from penstock.cli.demo.finale import Finale
from penstock.cli.demo.ledger import Ledger
from penstock.cli.demo.players import Connect, Troupe, expected_failures
from penstock.cli.demo.stage import Stage
from penstock.cli.demo.story import PARTS, Fate, Part, Script
from penstock.client import calls
from penstock.postgres.call import run

TICK = 0.25
DEADLINE = 45.0
# The rate shown while it runs is that of the last two seconds.
RATE_TICKS = 8


@dataclass(frozen=True, slots=True)
class Report:
    lines: list[audit.Line]
    findings: list[audit.Finding]
    seconds: float
    finale: Finale | None = None

    @property
    def ok(self) -> bool:
        return all(finding.ok for finding in self.findings)


def play(
    connection: Connection[Any],
    connect: Connect,
    script: Script,
    console: Console,
    last_act: Callable[[Stage], Finale] | None = None,
) -> Report:
    """Run the whole demo; whatever happens, nothing of it stays in the database."""
    started = time.monotonic()
    with _staged(connection) as where:
        ledger = Ledger()
        troupe = Troupe(script, where, ledger, connect)
        try:
            troupe.start()
            _watch(_Scene(connection, where, script, ledger, troupe), console)
        finally:
            troupe.leave()
        if troupe.problem is not None:
            raise troupe.problem
        books = audit.collect(connection, script, where, ledger)
        findings = audit.findings(books)
        finale = None if last_act is None else last_act(where)
    if finale is not None:
        findings.append(finale.finding)
    return Report(audit.lines(books), findings, round(time.monotonic() - started, 1), finale)


@contextmanager
def _staged(connection: Connection[Any]) -> Iterator[Stage]:
    where = Stage.invent()
    try:
        stage.build(connection, where)
        yield where
    finally:
        stage.take_down(connection, where.topic)


@dataclass(frozen=True, slots=True)
class _Scene:
    connection: Connection[Any]
    where: Stage
    script: Script
    ledger: Ledger
    troupe: Troupe
    started: float = field(default_factory=time.monotonic)

    def elapsed(self) -> float:
        return time.monotonic() - self.started

    def is_over(self) -> bool:
        if self.troupe.problem is not None:
            return True
        if self.elapsed() > DEADLINE:
            return True  # the audit will say what is missing
        return self.troupe.everything_published.is_set() and all(map(self._settled, PARTS))

    def _settled(self, part: Part) -> bool:
        """Every order is done, but for those that will be dead once their last attempt failed."""
        orders = list(self.script.orders.values())
        doomed = sum(part.needs_a_number and order.fate is Fate.POISONED for order in orders)
        return self.ledger.done_count(part.name) >= len(
            orders
        ) - doomed and self.ledger.failed_count(part.name) >= expected_failures(part, orders)


def _watch(scene: _Scene, console: Console) -> None:
    if not console.is_terminal:
        while not scene.is_over():
            time.sleep(TICK)
        return
    rates = _Rates()
    with Live(console=console, transient=True, auto_refresh=False) as live:
        while not scene.is_over():
            live.update(_frame(scene, rates), refresh=True)
            time.sleep(TICK)


def _frame(scene: _Scene, rates: _Rates) -> Any:
    statistics = {
        part.name: run(scene.connection, calls.queue_statistics(scene.where.queue(part)))
        for part in PARTS
    }
    return screen.live(
        scene.ledger,
        statistics,
        rates.now(scene.ledger),
        elapsed=scene.elapsed(),
        planned=len(scene.script.orders),
    )


class _Rates:
    """Messages done per second in each queue, over the last few ticks."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, dict[str, int]]] = deque(maxlen=RATE_TICKS)

    def now(self, ledger: Ledger) -> dict[str, float]:
        self._seen.append(
            (time.monotonic(), {part.name: ledger.done_count(part.name) for part in PARTS})
        )
        (then, before), (now, after) = self._seen[0], self._seen[-1]
        if now <= then:
            return {}
        return {name: (after[name] - before[name]) / (now - then) for name in after}
