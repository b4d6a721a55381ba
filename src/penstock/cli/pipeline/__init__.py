"""penstock pipeline: ready data pipelines on Spark."""

from __future__ import annotations

import typer

from penstock.cli.pipeline import analyse, archive, ingest, migrate, replay, route, stateful

app = typer.Typer(
    name="pipeline",
    help="Data pipelines on Spark: files in, archives and reports out, topics to topics.",
    epilog="Example: penstock pipeline archive orders --to lake/orders --once",
    no_args_is_help=True,
)
for part in (ingest, archive, route, analyse, replay, stateful):
    part.register(app)
app.add_typer(migrate.app)
