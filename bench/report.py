"""The results as tables for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.markup import escape
from rich.table import Table

from bench import figures
from bench.targets import Status

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import Console

    from bench.model import Result
    from bench.targets import Verdict

NOTHING = "\N{EN DASH}"
STYLES = {Status.REACHED: "green", Status.MISSED: "bold red", Status.NOT_JUDGED: "yellow"}


def number(value: float | None) -> str:
    if value is None:
        return NOTHING
    return f"{value:,.0f}" if value >= 100 else f"{value:,.1f}"


def times(value: float | None) -> str:
    return NOTHING if value is None else f"{value:.2f}\N{MULTIPLICATION SIGN}"


def milliseconds(result: Result) -> str:
    latency = result.latency
    if latency is None:
        return NOTHING
    return f"{latency.p50:.2f} / {latency.p95:.2f} / {latency.p99:.2f}"


def course_ratio(result: Result, edge: int) -> str:
    if not result.course:
        return NOTHING
    return times(figures.end_over_start([sample.cpu_us for sample in result.samples], edge))


def roles(result: Result) -> str:
    """CPU of each backend, for those that were told apart and did something."""
    names = list(result.samples[0].cpu_ns) if result.samples else []
    costs = {name: result.cpu_us_of(name) or 0 for name in names}
    busy = [f"{name} {number(cost)}" for name, cost in costs.items() if cost >= 0.05]
    return ", ".join(busy) if len(busy) > 1 else ""


def remarks(result: Result) -> str:
    if result.failed:
        return f"[bold red]failed[/] {escape(result.failed)}"
    return escape(result.skipped or result.note or roles(result))


def dead(result: Result) -> str:
    return f"{sum(result.dead_rows.values()):,}" if result.samples else NOTHING


def scenario_table(title: str, results: Sequence[Result], edge: int) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold")
    table.add_column("case")
    table.add_column("queue")
    for heading in ("messages/s", "p50 / p95 / p99 ms", "CPU µs", "server µs", "WAL B"):
        table.add_column(heading, justify="right")
    for heading in ("end/start", "dead rows"):
        table.add_column(heading, justify="right")
    table.add_column("remarks", overflow="fold")
    for result in results:
        table.add_row(*_cells(result, edge), end_section=_last_of_case(result, results))
    return table


def _cells(result: Result, edge: int) -> Iterator[str]:
    yield result.case.label
    yield result.contestant
    yield number(result.rate)
    yield milliseconds(result)
    yield number(result.cpu_us)
    yield number(result.server_cpu_us)
    yield number(result.wal)
    yield course_ratio(result, edge)
    yield dead(result)
    yield remarks(result)


def _last_of_case(result: Result, results: Sequence[Result]) -> bool:
    return [other for other in results if other.case == result.case][-1] is result


def target_table(verdicts: Sequence[Verdict]) -> Table:
    table = Table(title="Targets", title_justify="left", title_style="bold")
    for heading in ("target", "at most", "measured", "", "figures"):
        table.add_column(heading)
    for verdict in verdicts:
        style = STYLES[verdict.status]
        table.add_row(
            verdict.title,
            times(verdict.limit),
            times(verdict.value),
            f"[{style}]{verdict.status.value}[/]",
            verdict.detail,
        )
    return table


def show(
    console: Console,
    titles: dict[str, str],
    results: Sequence[Result],
    verdicts: Sequence[Verdict],
    edge: int,
) -> None:
    for name, title in titles.items():
        found = [result for result in results if result.scenario == name]
        if found:
            console.print(scenario_table(title, in_order(found), edge))
    console.print(target_table(verdicts))


def in_order(results: Sequence[Result]) -> list[Result]:
    """Case by case, in the order in which they ran; those left out stand last in their case."""
    cases = list(dict.fromkeys(result.case for result in results))
    return sorted(results, key=lambda result: (cases.index(result.case), not result.samples))
