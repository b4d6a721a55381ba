"""penstock pipeline ingest."""

# ruff: noqa: A002 - format is Spark's word

from __future__ import annotations

from types import ModuleType
from typing import Annotated, Any

import typer

from penstock.cli.pipeline.common import FileFormat, To, pairs, pipeline_command
from penstock.cli.session import Session


def _sql(name: str, help: str) -> Any:
    return typer.Option(name, metavar="SQL", help=help)


def ingest(
    _session: Session,
    pipelines: ModuleType,
    run: dict[str, Any],
    *,
    source: Annotated[
        list[str],
        typer.Argument(metavar="SOURCE...", help="Files, folders, patterns; with --table, names."),
    ],
    topic: To,
    format: FileFormat = None,
    table: Annotated[
        bool, typer.Option("--table", help="The sources are tables that Spark knows.")
    ] = False,
    key: Annotated[str | None, _sql("--key", "The message's key, such as a column's name.")] = None,
    header: Annotated[
        list[str],
        typer.Option("--header", metavar="NAME=SQL", help="A header; may be repeated."),
    ] = [],  # noqa: B006 - typer's way to say that it may be repeated
    priority: Annotated[str | None, _sql("--priority", "The message's priority.")] = None,
    deliver_after: Annotated[
        str | None, _sql("--deliver-after", "When it may be delivered, a timestamp.")
    ] = None,
    tenant: Annotated[str | None, _sql("--tenant", "The message's tenant.")] = None,
    payload: Annotated[
        list[str],
        typer.Option("--payload", metavar="COLUMN", help="Only these columns; may be repeated."),
    ] = [],  # noqa: B006
    payload_sql: Annotated[
        str | None, _sql("--payload-sql", "The whole payload as JSON text, by an expression.")
    ] = None,
    schema: Annotated[
        str | None,
        typer.Option("--schema", metavar="DDL", help='The columns: "id bigint, name string".'),
    ] = None,
    infer_types: Annotated[
        bool, typer.Option("--infer-types", help="CSV: find types; else all columns are text.")
    ] = False,
    option: Annotated[
        list[str],
        typer.Option("--option", metavar="NAME=VALUE", help="An option of Spark's reader."),
    ] = [],  # noqa: B006
    rejects: Annotated[
        str | None,
        typer.Option(
            "--rejects", metavar="FOLDER", show_default="in the state", help="Where bad rows go."
        ),
    ] = None,
    files_per_batch: Annotated[
        int, typer.Option("--files-per-batch", min=1, help="At most so many files at once.")
    ] = 200,
    max_failures: Annotated[
        int,
        typer.Option(
            "--max-failures", min=0, help="More rows of one batch that can't be mapped stop it."
        ),
    ] = 100,
) -> Any:
    """Publish the rows of files or tables, each file once; bad rows go aside with the reason."""
    if payload and payload_sql:
        raise typer.BadParameter("choose one of --payload and --payload-sql")
    return pipelines.ingest(
        source,
        topic,
        format=format,
        table=table,
        mapping=pipelines.Mapping(
            key=key,
            headers=pairs(header, "--header"),
            priority=priority,
            deliver_after=deliver_after,
            tenant=tenant,
            payload=payload_sql or payload or None,
        ),
        schema=schema,
        infer_types=infer_types,
        read_options=pairs(option, "--option"),
        rejects=rejects,
        files_per_batch=files_per_batch,
        max_failures=max_failures,
        **run,
    )


def register(app: typer.Typer) -> None:
    example = "penstock pipeline ingest 'inbox/*.jsonl' --to orders --key customer --once"
    pipeline_command(app, example=example, reads=False)(ingest)
