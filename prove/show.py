"""The programme's results for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.table import Table

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from prove.model import Figure, Outcome, Part, Report

_FIRST = ("attempted", "acked", "delivered", "lost", "unexpected", "duplicated", "recovered")


def parts(found: Iterable[Part]) -> Table:
    table = Table("part", "promise", "its twin", title="parts of the programme")
    for part in found:
        table.add_row(part.name, part.promise, part.sabotage)
    return table


def results(reports: Iterable[Report]) -> Table:
    table = Table("part", *_FIRST, "other figures", "twin", "seconds", "result", title="proof")
    for report in reports:
        counts = report.honest.counts
        table.add_row(
            report.part.name,
            *(_figure(counts[name]) if name in counts else "" for name in _FIRST),
            rest(counts),
            _twin(report),
            f"{report.seconds:.0f}",
            _result(report),
        )
    return table


def rest(counts: Mapping[str, Figure]) -> str:
    """The figures that have no column of their own."""
    return ", ".join(
        f"{name} {_figure(value)}" for name, value in counts.items() if name not in _FIRST
    )


def broken(outcome: Outcome) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in outcome.broken.items())


def _twin(report: Report) -> str:
    if report.twin is None:
        return ""
    return broken(report.twin) if report.caught else "[red]not caught"


def _result(report: Report) -> str:
    match report.status:
        case "kept":
            return "[green]kept"
        case "skipped":
            return f"[yellow]skipped: {report.honest.skipped}"
        case "broken":
            return f"[red]broken: {broken(report.honest)}"
        case "too small":
            short = ", ".join(f"{name} {count:,}" for name, count in report.short.items())
            return f"[red]too small: {short}"
        case status:
            return f"[red]{status}"


def _figure(value: Figure) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:,.3g}"
