"""penstock pipeline ingest, and migrate with one command for each kind of queue."""

# ruff: noqa: A002 - format is Spark's word

from __future__ import annotations

from types import ModuleType
from typing import Annotated, Any

import typer

from penstock.cli.pipeline.pipeline_command import FileFormat, To, pairs, pipeline_command
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


app = typer.Typer(
    name="migrate",
    help="Move what waits in another queue into topics, once.",
    epilog="Example: penstock pipeline migrate pgmq billing --to billing",
    no_args_is_help=True,
)


@pipeline_command(app, example="penstock pipeline migrate pgmq billing --to orders", ends=True)
def pgmq(
    _session: Session,
    pipelines: ModuleType,
    run: dict[str, Any],
    *,
    queue: Annotated[str, typer.Argument(metavar="QUEUE", help="The queue's name in pgmq.")],
    to: Annotated[
        str | None,
        typer.Option(
            "--to",
            metavar="TOPIC",
            help="The topic to publish to.",
            show_default="the queue's name",
        ),
    ] = None,
    source: Annotated[
        str | None,
        typer.Option("--from", metavar="URL", help="pgmq's database, if it is another one."),
    ] = None,
    delete: Annotated[
        bool, typer.Option("--delete", help="Delete a message there once it is published.")
    ] = False,
) -> Any:
    """Move the messages of a pgmq queue."""
    return pipelines.migrate_pgmq(queue, to, source=source, delete=delete, **run)


@pipeline_command(
    app, example="penstock pipeline migrate kafka 'export/*.jsonl' --to orders --once"
)
def kafka(
    _session: Session,
    pipelines: ModuleType,
    run: dict[str, Any],
    *,
    source: Annotated[
        list[str], typer.Argument(metavar="SOURCE...", help="Files, folders or patterns.")
    ],
    to: To,
    format: FileFormat = None,
    base64: Annotated[
        bool, typer.Option("--base64", help="Key and value are base64 in the files.")
    ] = False,
) -> Any:
    """Publish records that were exported from Kafka into files, each file once."""
    return pipelines.migrate_kafka(source, to, format=format, base64=base64, **run)


@pipeline_command(
    app,
    example="penstock pipeline migrate sqs http://127.0.0.1:9324/000000000000/a --to a --once",
)
def sqs(
    _session: Session,
    pipelines: ModuleType,
    run: dict[str, Any],
    *,
    queue_url: Annotated[str, typer.Argument(metavar="URL", help="The SQS queue's URL.")],
    to: To,
    endpoint: Annotated[
        str | None, typer.Option("--endpoint", metavar="URL", help="Another server than AWS's.")
    ] = None,
    region: Annotated[str | None, typer.Option("--region", help="The queue's region.")] = None,
    keep: Annotated[
        bool, typer.Option("--keep", help="Don't delete messages there once they are published.")
    ] = False,
) -> Any:
    """Move the messages of an SQS queue, with the credentials that boto3 finds."""
    return pipelines.migrate_sqs(queue_url, to, endpoint=endpoint, region=region, keep=keep, **run)


@pipeline_command(
    app,
    example="penstock pipeline migrate tasks --from mysql://app@localhost/shop --prefix tasks.",
    ends=True,
)
def tasks(
    _session: Session,
    pipelines: ModuleType,
    run: dict[str, Any],
    *,
    source: Annotated[
        str,
        typer.Option("--from", metavar="URL", help="The task store: mysql:// or postgresql://."),
    ],
    prefix: Annotated[str, typer.Option("--prefix", help="What topics' names begin with.")] = "",
    table: Annotated[str, typer.Option("--table", help="The table of tasks.")] = "mq_tasks",
) -> Any:
    """Publish the open tasks of mq_tasks to topics of their own names."""
    return pipelines.migrate_tasks(source, prefix=prefix, table=table, **run)
