"""penstock pipeline archive, replay and analyse."""

# ruff: noqa: A002 - format is Spark's word

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import ModuleType
from typing import Annotated, Any

import typer

from penstock.cli.arguments import duration_option
from penstock.cli.pipeline.pipeline_command import (
    Catalog,
    Group,
    LakeFormat,
    MaxRows,
    Start,
    TableName,
    pairs,
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


def moment(text: str) -> datetime:
    """ISO 8601; without a zone it is UTC, as everything here."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is no time; write 2026-01-31T12:00:00") from None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def replay(
    _session: Session,
    pipelines: ModuleType,
    run: dict[str, Any],
    *,
    archive: Annotated[
        str | None, typer.Option("--archive", metavar="PATH", help="Messages of this archive.")
    ] = None,
    log: Annotated[
        list[str],
        typer.Option("--log", metavar="TOPIC", help="Or of this topic's log; repeatable."),
    ] = [],  # noqa: B006 - typer's way to say that it may be repeated
    to: Annotated[
        str | None, typer.Option("--to", metavar="TOPIC", help="The topic they go to.")
    ] = None,
    to_queue: Annotated[
        str | None, typer.Option("--to-queue", metavar="QUEUE", help="Or one queue alone.")
    ] = None,
    topic: Annotated[
        list[str], typer.Option("--topic", help="Archive: only of this topic; may be repeated.")
    ] = [],  # noqa: B006
    since: Annotated[
        datetime | None,
        typer.Option("--since", parser=moment, metavar="TIME", help="Published from then on."),
    ] = None,
    until: Annotated[
        datetime | None,
        typer.Option("--until", parser=moment, metavar="TIME", help="Published before."),
    ] = None,
    key: Annotated[str | None, typer.Option("--key", help="Only with this key.")] = None,
    header: Annotated[
        list[str],
        typer.Option("--header", metavar="NAME=VALUE", help="Only with this header; repeatable."),
    ] = [],  # noqa: B006
    where: Annotated[
        str | None,
        typer.Option("--where", metavar="SQL", help="Only where this is true, over the columns."),
    ] = None,
    rate: Annotated[
        float | None,
        typer.Option("--rate", min=0.01, metavar="ROWS", help="At most so many rows a second."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be sent, and send nothing.")
    ] = False,
    again: Annotated[
        bool, typer.Option("--again", help="Send once more what this replay has sent before.")
    ] = False,
    format: LakeFormat = "delta",
    catalog: Catalog = None,
    table: TableName = None,
) -> Any:
    """Send messages of an archive or of the log again; each tells its original id in a header."""
    return pipelines.replay(
        archive=archive,
        log=log or None,
        to_topic=to,
        to_queue=to_queue,
        topics=topic or None,
        since=since,
        until=until,
        key=key,
        headers=pairs(header, "--header"),
        where=where,
        rate=rate,
        dry_run=dry_run,
        again=again,
        format=format,
        catalog=catalog,
        table=table,
        **run,
    )


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
