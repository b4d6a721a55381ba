"""penstock pipeline archive."""

# ruff: noqa: A002 - format is Spark's word

from __future__ import annotations

from types import ModuleType
from typing import Annotated, Any

import typer

from penstock.cli.pipeline.common import (
    Catalog,
    Group,
    LakeFormat,
    MaxRows,
    Start,
    TableName,
    pipeline_command,
)
from penstock.cli.session import Session


def archive(
    _session: Session,
    pipelines: ModuleType,
    run: dict[str, Any],
    *,
    topics: Annotated[list[str], typer.Argument(metavar="TOPIC...", help="The topics to archive.")],
    target: Annotated[
        str, typer.Option("--to", metavar="PATH", help="The folder or URI of the archive.")
    ],
    format: LakeFormat = "delta",
    group: Group = None,
    start: Start = "earliest",
    max_rows: MaxRows = 1_000_000,
    compact: Annotated[
        bool, typer.Option("--compact", help="Join small files at the end (with --once).")
    ] = False,
    compact_below: Annotated[
        int, typer.Option("--compact-below", metavar="MB", min=1, help="What a small file is.")
    ] = 64,
    keep_hours: Annotated[
        int,
        typer.Option("--keep-hours", min=0, help="How long replaced files stay for readers."),
    ] = 168,
    catalog: Catalog = None,
    table: TableName = None,
) -> Any:
    """Write topics to a lake, exactly once, by topic and day; then the log may shrink."""
    return pipelines.archive(
        topics,
        target,
        format=format,
        group=group,
        start=start,
        max_rows=max_rows,
        compact=compact,
        compact_below=compact_below * 1024 * 1024,
        keep_hours=keep_hours,
        catalog=catalog,
        table=table,
        **run,
    )


def register(app: typer.Typer) -> None:
    example = "penstock pipeline archive orders --to lake/orders --once --compact"
    pipeline_command(app, example=example)(archive)
