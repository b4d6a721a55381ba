"""The root of the command line; here an error becomes one line and an exit code."""

from __future__ import annotations

import signal
import sys
from typing import Annotated, Any, NoReturn

import typer

import penstock
from penstock.cli.common import Common, DsnOption, JsonOption
from penstock.cli.lazily import Entry, LazyGroup

FAILED = 1


class Root(LazyGroup):
    """Every noun and verb, in the order of the help; a test compares the sentences."""

    entries = (
        Entry(
            "init",
            "Install the engine in a database, or bring it up to date. "
            "Running it again is harmless.",
        ),
        Entry(
            "doctor",
            "Check that everything is as it should be, and say what to do where it is not.",
        ),
        Entry(
            "maintain",
            "Do all housekeeping: expired claims, segments, exclusive queues, old history.",
        ),
        Entry(
            "metrics",
            "Serve the state of every queue to Prometheus at /metrics, until Ctrl-C.",
        ),
        Entry("worker", "Run a worker: its handlers and schedules, until SIGTERM or Ctrl-C."),
        Entry(
            "sqs",
            "Serve Amazon SQS's protocols: any SQS client works with the queues of this database.",
        ),
        Entry("dashboard", "Show every queue in a browser, live, and let operators act."),
        Entry(
            "demo",
            "Publish an order stream to three queues and show what becomes of it, "
            "in under a minute.",
        ),
        Entry(
            "bench",
            "Measure Penstock beside other queues, on a private server; needs the source tree.",
        ),
        Entry("topic", "The logs that messages are published to."),
        Entry("queue", "The subscriptions that messages are consumed from."),
        Entry("message", "Publish, look at, and consume messages by hand."),
        Entry("dlq", "The dead letters: messages that used up their attempts."),
        Entry("task", "Durable tasks, on PostgreSQL, MySQL or MariaDB."),
        Entry(
            "pipeline",
            "Data pipelines on Spark: files in, archives and reports out, topics to topics.",
        ),
        Entry("sqs-key", "Who may sign requests to the SQS server."),
    )


app = typer.Typer(
    name="penstock",
    cls=Root,
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


def main() -> NoReturn:
    """Run the command line; never show a traceback for what a person can mend."""
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        app(prog_name="penstock")
    except Exception as problem:
        if not _told(problem):
            raise
        sys.exit(FAILED)
    sys.exit(0)


def _told(problem: Exception) -> bool:
    """Whether the error was one of ours, and has been shown."""
    # Imported only now: help and version need neither rich nor psycopg.
    from penstock.cli import output
    from penstock.cli.advice import explain
    from penstock.errors import PenstockError

    if isinstance(problem, PenstockError):
        output.error(*explain(problem))
    return isinstance(problem, PenstockError)


def _interrupt(_signal: int, _frame: Any) -> NoReturn:
    # As Ctrl-C: every command cleans up behind itself on its way out.
    raise KeyboardInterrupt
