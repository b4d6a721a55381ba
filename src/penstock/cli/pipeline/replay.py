"""penstock pipeline replay."""

# ruff: noqa: A002 - format is Spark's word

from __future__ import annotations

from datetime import UTC, datetime
from types import ModuleType
from typing import Annotated, Any

import typer

from penstock.cli.pipeline.common import Catalog, LakeFormat, TableName, pairs, pipeline_command
from penstock.cli.session import Session


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


def register(app: typer.Typer) -> None:
    example = (
        "penstock pipeline replay --archive lake/orders --since 2026-01-31 --key customer-7 "
        "--to orders-again --rate 500 --dry-run"
    )
    pipeline_command(app, example=example, ends=True)(replay)
