"""penstock pipeline migrate: one command for each queue to come from."""

# ruff: noqa: A002 - format is Spark's word

from __future__ import annotations

from types import ModuleType
from typing import Annotated, Any

import typer

from penstock.cli.pipeline.common import FileFormat, To, pipeline_command
from penstock.cli.session import Session

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
