"""penstock pipeline: ready data pipelines on Spark."""

from __future__ import annotations

import typer

from penstock.cli.pipeline.import_commands import app as migrate_app
from penstock.cli.pipeline.import_commands import ingest
from penstock.cli.pipeline.lake_commands import analyse, archive, replay
from penstock.cli.pipeline.pipeline_command import pipeline_command
from penstock.cli.pipeline.stream_commands import aggregate, dedupe, route

app = typer.Typer(
    name="pipeline",
    help="Data pipelines on Spark: files in, archives and reports out, topics to topics.",
    epilog="Example: penstock pipeline archive orders --to lake/orders --once",
    no_args_is_help=True,
)
pipeline_command(
    app,
    example="penstock pipeline ingest 'inbox/*.jsonl' --to orders --key customer --once",
    reads=False,
)(ingest)
pipeline_command(app, example="penstock pipeline archive orders --to lake/orders --once --compact")(
    archive
)
pipeline_command(
    app,
    example=(
        "penstock pipeline route orders --to orders-large "
        "--where \"variant_get(payload, '$.amount', 'int') > 1000\" --once"
    ),
)(route)
pipeline_command(app, example="penstock pipeline analyse reports/orders --topic orders --once")(
    analyse
)
pipeline_command(
    app,
    example=(
        "penstock pipeline replay --archive lake/orders --since 2026-01-31 --key customer-7 "
        "--to orders-again --rate 500 --dry-run"
    ),
    ends=True,
)(replay)
pipeline_command(
    app, example="penstock pipeline dedupe orders --to orders-once --by key --within 1h"
)(dedupe)
pipeline_command(
    app, example="penstock pipeline aggregate orders --to orders-per-minute --by key --window 1m"
)(aggregate)
app.add_typer(migrate_app)
