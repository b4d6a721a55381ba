"""penstock pipeline analyse."""

# ruff: noqa: A002 - format is Spark's word

from __future__ import annotations

from datetime import timedelta
from types import ModuleType
from typing import Annotated, Any

import typer

from penstock.cli.arguments import duration_option
from penstock.cli.pipeline.common import Group, MaxRows, Start, pipeline_command
from penstock.cli.session import Session


def analyse(
    _session: Session,
    pipelines: ModuleType,
    run: dict[str, Any],
    *,
    target: Annotated[
        str, typer.Argument(metavar="FOLDER", help="Where the tables and the report go.")
    ],
    topic: Annotated[
        list[str], typer.Option("--topic", help="Only queues of this topic; may be repeated.")
    ] = [],  # noqa: B006 - typer's way to say that it may be repeated
    queue: Annotated[
        list[str], typer.Option("--queue", help="Only this queue; may be repeated.")
    ] = [],  # noqa: B006
    format: Annotated[
        str, typer.Option("--format", metavar="delta|parquet", help="The tables' format.")
    ] = "delta",
    period: Annotated[
        timedelta | None, duration_option("--period", help="What the report covers (7d).")
    ] = None,
    title: Annotated[
        str, typer.Option("--title", help="The report's title.")
    ] = "What became of the messages",
    report: Annotated[
        str | None,
        typer.Option(
            "--report",
            metavar="FILE",
            help="Where the report goes.",
            show_default="report.html in the folder",
        ),
    ] = None,
    group: Group = None,
    start: Start = "earliest",
    max_rows: MaxRows = 1_000_000,
) -> Any:
    """Bring tables of throughput, latencies and failures up to date, and write an HTML report."""
    return pipelines.analyse(
        target,
        topics=topic or None,
        queues=queue or None,
        format=format,
        period=timedelta(days=7) if period is None else period,
        title=title,
        report=report,
        group=group,
        start=start,
        max_rows=max_rows,
        **run,
    )


def register(app: typer.Typer) -> None:
    example = "penstock pipeline analyse reports/orders --topic orders --once"
    pipeline_command(app, example=example)(analyse)
