"""The root of the command line; here an error becomes one line and an exit code."""

from __future__ import annotations

import signal
import sys
from typing import Annotated, Any, NoReturn

import typer

import penstock
from penstock.cli import (
    demo,
    dlq,
    doctor,
    init,
    maintain,
    message,
    output,
    pipeline,
    queue,
    sqs,
    sqs_key,
    task,
    topic,
    worker,
)
from penstock.cli.advice import explain
from penstock.cli.command import Common, DsnOption, JsonOption
from penstock.errors import PenstockError

FAILED = 1

app = typer.Typer(
    name="penstock",
    help="A message queue that lives in PostgreSQL.",
    epilog="Example: penstock demo",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"penstock {penstock.__version__}")
        raise typer.Exit


@app.callback()
def root(
    context: typer.Context,
    dsn: DsnOption = None,
    json: JsonOption = False,
    _version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    """A message queue that lives in PostgreSQL."""
    context.obj = Common(dsn, json)


for noun in (topic, queue, message, dlq, task, sqs_key, pipeline):
    app.add_typer(noun.app)
for verb in (init, doctor, maintain, worker, sqs, demo):
    verb.register(app)


def main() -> NoReturn:
    """Run the command line; never show a traceback for what a person can mend."""
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        app(prog_name="penstock")
    except PenstockError as problem:
        output.error(*explain(problem))
        sys.exit(FAILED)
    sys.exit(0)


def _interrupt(_signal: int, _frame: Any) -> NoReturn:
    # As Ctrl-C: every command cleans up behind itself on its way out.
    raise KeyboardInterrupt
