"""How the demo looks: the table that lives while it runs, and the summary at the end."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich import box
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from penstock.cli.demo.audit import Finding, Line
from penstock.cli.demo.finale import Finale
from penstock.cli.demo.ledger import Ledger
from penstock.cli.demo.story import PARTS
from penstock.models import QueueStatistics

LATENCY = "latency: from publishing to the first delivery, without the delayed order"


def live(
    ledger: Ledger,
    statistics: dict[str, QueueStatistics],
    rates: dict[str, float],
    *,
    elapsed: float,
    planned: int,
) -> RenderableType:
    table = _table("queue", "waiting", "in flight", "done", "retried", "dead", "msgs/s")
    for part in PARTS:
        numbers = statistics[part.name]
        table.add_row(
            part.name,
            f"{numbers.pending_count:,}",
            f"{numbers.processing_count:,}",
            f"{ledger.done_count(part.name):,}",
            f"{ledger.failed_count(part.name):,}",
            f"{numbers.dead_count:,}",
            f"{rates.get(part.name, 0):,.0f}",
        )
    return Group(
        Text(f"{len(ledger.published):,} of {planned:,} orders published, {elapsed:.0f} s"), table
    )


def summary(console: Console, lines: Sequence[Line], found: Sequence[Finding]) -> None:
    console.print(_summary_table(lines))
    console.print(Text(LATENCY, style="dim"))
    console.print()
    for finding in found:
        mark = ("✓ ", "green") if finding.ok else ("✗ ", "bold red")
        console.print(Text.assemble(mark, finding.text))


def finale(console: Console, last: Finale) -> None:
    console.print()
    console.print(Text.assemble(("Archive: ", "bold"), f"{last.archive} (Delta)"), soft_wrap=True)
    where = Path(last.report)
    link = Text(str(where), style=f"link {where.as_uri()}")
    console.print(Text.assemble(("Report:  ", "bold"), link), soft_wrap=True)


def _summary_table(lines: Sequence[Line]) -> Table:
    table = _table(
        *("queue", "published", "done", "retried", "dead", "msgs/s", "p50", "p95", "p99"),
        "settings",
    )
    table.columns[-1].justify = "left"
    for line in lines:
        table.add_row(
            line.queue,
            f"{line.published:,}",
            f"{line.done:,}",
            f"{line.retried:,}",
            f"{line.dead:,}",
            f"{line.per_second:,.0f}",
            *(_milliseconds(value) for value in (line.p50_ms, line.p95_ms, line.p99_ms)),
            Text(line.about, style="dim"),
        )
    return table


def _milliseconds(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f} ms"


def _table(*columns: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in columns:
        table.add_column(name, justify="left" if name == "queue" else "right")
    return table


def next_steps(console: Console, program: str) -> None:
    console.print()
    console.print(Text("Try next:", style="bold"))
    for step in STEPS:
        console.print(Text(f"  {program} {step}"), soft_wrap=True)


STEPS = (
    "queue create billing --topic orders",
    "message publish orders '{\"order\": 7}' --key customer-7",
    "message consume billing --ack",
    "queue show billing",
    "doctor",
)
