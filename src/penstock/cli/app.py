"""The root of the command line: its commands, and how an error becomes one line and an exit code.

The module of a command is imported when the command is called.  The help of the root and the
completion of its nouns need a name and a sentence only; everything else, such as a walk over all
commands, gets the real ones.
"""

from __future__ import annotations

import importlib
import signal
import sys
from collections.abc import Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, NoReturn

import typer
from typer.core import TyperCommand, TyperGroup

import penstock
from penstock.cli.arguments import DsnOption, JsonOption, SharedOptions

FAILED = 1
EXIT_CODES = {
    0: "Done. `watch`, `tail` and `maintain --every` end with it on Ctrl-C: that is their end.",
    1: "It could not be done, or what was looked for is not so: the database refused or is away, "
    "`doctor` found something wrong, a token holds nothing, a message is not known, or the reader "
    "of a pipe went away. Standard error says which, and what to do.",
    2: "The command was not understood, or a value or a file can't be used. Nothing was changed.",
    128: "With the number of the signal added: a worker that was told twice to stop, and so left "
    "work unfinished (Ctrl-C: 130).",
    130: "Ended by Ctrl-C or SIGTERM before it was done; what can be gone on with says how.",
}


@dataclass(frozen=True, slots=True)
class Entry:
    """A noun or a verb of the command line, which is in the module of its name or in another."""

    name: str
    help: str
    module: str = ""

    @property
    def listed(self) -> TyperCommand:
        """Enough of a command to be listed."""
        return TyperCommand(self.name, help=self.help)

    def load(self) -> Any:
        """The command itself."""
        return commands_of(self.module or self.name)[self.name]


def commands_of(name: str) -> Mapping[str, Any]:
    """The commands of a module by name: it has a Typer `app`, or a `register(app)`, or none."""
    module = importlib.import_module(f"penstock.cli.{name}")
    holder = typer.Typer(add_completion=False, rich_markup_mode="rich")
    # With a callback of its own it is a group, and never the one command that it has.
    holder.callback()(lambda: None)
    if hasattr(module, "register"):
        module.register(holder)
    elif hasattr(module, "app"):
        holder.add_typer(module.app)
    return typer.main.get_group(holder).commands


class Commands(MutableMapping[str, Any]):
    """The commands by name, each made when it is first asked for."""

    def __init__(self, entries: tuple[Entry, ...]) -> None:
        self.entries = {entry.name: entry for entry in entries}
        self._made: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._made:
            self._made[name] = self.entries[name].load()
        return self._made[name]

    def __setitem__(self, name: str, command: Any) -> None:
        self._made[name] = command

    def __delitem__(self, name: str) -> None:
        del self.entries[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    def __contains__(self, name: object) -> bool:
        return name in self.entries


class LazyGroup(TyperGroup):
    """A group that knows its commands by name."""

    entries: ClassVar[tuple[Entry, ...]] = ()

    def __init__(self, **words: Any) -> None:
        super().__init__(**words)
        self.commands = Commands(self.entries)
        self._listing = False

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002
        return list(self.commands)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002
        if cmd_name not in self.commands:
            return None
        if self._listing:
            return next(each for each in self.entries if each.name == cmd_name).listed
        return self.commands[cmd_name]

    def format_help(self, ctx: Any, formatter: Any) -> None:
        with self._names_only():
            super().format_help(ctx, formatter)

    def shell_complete(self, ctx: Any, incomplete: str) -> Any:
        with self._names_only():
            return super().shell_complete(ctx, incomplete)

    @contextmanager
    def _names_only(self) -> Iterator[None]:
        self._listing = True
        try:
            yield
        finally:
            self._listing = False


class Root(LazyGroup):
    """Every noun and verb, in the order of the help; a test compares the sentences."""

    entries = (
        Entry(
            "init",
            "Install the engine in a database, or bring it up to date. "
            "Running it again is harmless.",
            "engine",
        ),
        Entry(
            "doctor",
            "Check that everything is as it should be, and say what to do where it is not.",
        ),
        Entry(
            "maintain",
            "Do all housekeeping: expired claims, segments, exclusive queues, old history.",
            "engine",
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
        Entry("sqs-key", "Who may sign requests to the SQS server.", "sqs"),
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
    context.obj = SharedOptions(dsn, json)


def main() -> NoReturn:
    """Run the command line; an error of ours is shown in one line, without a traceback."""
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        app(prog_name="penstock")
    except Exception as problem:
        if not _told(problem):
            raise
        sys.exit(FAILED)
    sys.exit(0)


def _told(problem: Exception) -> bool:
    """Show an error of ours; False for any other."""
    # Imported only now: help and version need neither rich nor psycopg.
    from penstock.cli import output
    from penstock.errors import PenstockError

    if isinstance(problem, PenstockError):
        output.error(*output.explain(problem))
    return isinstance(problem, PenstockError)


def _interrupt(_signal: int, _frame: Any) -> NoReturn:
    # As Ctrl-C: every command cleans up when it is interrupted.
    raise KeyboardInterrupt
