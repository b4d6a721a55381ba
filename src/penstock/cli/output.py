"""What a command prints: tables and sentences, or with --json JSON only.

Results go to stdout.  Notes, progress and errors go to stderr, so that a pipe carries data only.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from enum import Enum
from typing import Any

import msgspec
from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from penstock import errors

# Wide enough that a piped table is never folded: one row is one line for `grep`.
_PIPE_WIDTH = 4000

Record = Mapping[str, Any]

# What to do about an error at the command line: the engine's own hints speak SQL.
_CURES: dict[type[errors.PenstockError], str] = {
    errors.UnknownTopic: "penstock topic list shows all topics, penstock topic create makes one",
    errors.UnknownQueue: "penstock queue list shows all queues, penstock queue create makes one",
    errors.UnknownDeadLetter: "penstock dlq list shows all dead letters",
    errors.NotInstalled: "run penstock init",
    errors.QueueExpired: "create it again, and call penstock queue keep-alive in time",
    errors.AlreadyExists: "use the same settings or another name, or delete the old one first",
    errors.Conflict: "another session was faster or holds a lock; try again",
}
# PostgreSQL itself refused; where the engine did, its own hint knows more.
_RIGHTS = (
    "penstock doctor tells which roles this login has; an owner grants another: penstock_publisher,"
    " penstock_consumer, penstock_monitor (to look), penstock_admin (to create, pause, purge)"
)


def console(*, stderr: bool = False) -> Console:
    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() else _PIPE_WIDTH
    return Console(stderr=stderr, width=width, highlight=False, soft_wrap=stderr)


class Output:
    """Prints the results of one command, as tables and sentences or as JSON."""

    def __init__(self, *, json: bool) -> None:
        self.json = json
        self.people = console()
        self.aside = console(stderr=True)

    def table(self, rows: Sequence[Record], *columns: str, empty: str) -> None:
        """Show many rows; a table has the named columns, JSON has every field."""
        if self.json:
            self._document([plain(row) for row in rows])
        elif rows:
            self._print(grid(rows, columns))
        else:
            self.aside.print(Text(empty))

    def record(self, facts: Record) -> None:
        """Show one thing, a line a fact."""
        if self.json:
            self._document(plain(facts))
            return
        grid = Table(box=None, show_header=False, pad_edge=False)
        grid.add_column(style="bold")
        grid.add_column(overflow="fold")
        for name, value in facts.items():
            grid.add_row(name.replace("_", " "), cell(value))
        self._print(grid)

    def line(self, facts: Record, sentence: str) -> None:
        """One element of a stream: a JSON line, or a sentence."""
        if self.json:
            self._document(plain(facts))
        else:
            self.people.print(Text(clean(sentence)), soft_wrap=True)

    done = line

    def note(self, sentence: str) -> None:
        self.aside.print(Text(clean(sentence), style="dim"))

    def progress(self) -> Progress:
        """A bar on stderr; shown only if stderr is a terminal and the output is not JSON."""
        return Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            console=self.aside,
            transient=True,
            disable=self.json or not self.aside.is_terminal,
        )

    def _print(self, table: Table) -> None:
        """A pipe gets no padding: neither empty lines nor spaces at the end of a line."""
        if self.people.is_terminal:
            self.people.print(table)
            return
        with self.people.capture() as captured:
            self.people.print(table)
        lines = (line.rstrip() for line in captured.get().splitlines())
        self.people.out("\n".join(line for line in lines if line), highlight=False)

    def _document(self, value: Any) -> None:
        sys.stdout.write(json.dumps(value, ensure_ascii=False) + "\n")
        sys.stdout.flush()


def error(message: str, hint: str | None = None) -> None:
    """One line that says what is wrong, and one that says what to do."""
    aside = console(stderr=True)
    aside.print(Text.assemble(("error: ", "bold red"), clean(message)))
    if hint:
        aside.print(Text.assemble(("hint:  ", "bold"), clean(hint)))


def explain(problem: errors.PenstockError) -> tuple[str, str | None]:
    """One line that says what is wrong, and one that says what to do, if we know it."""
    message, _, rest = str(problem).partition("\n")
    cure = next((cure for kind, cure in _CURES.items() if isinstance(problem, kind)), None)
    if isinstance(problem, errors.PermissionDenied) and not rest:
        cure = _RIGHTS
    return _one_line(message), cure or _one_line(rest) or None


def _one_line(text: str) -> str:
    return " ".join(text.split())


def grid(rows: Iterable[Record], columns: Sequence[str]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in columns:
        table.add_column(name.replace("_", " "), overflow="fold")
    for row in rows:
        table.add_row(*(cell(row[name]) for name in columns))
    return table


def cell(value: Any) -> Text:
    match value:
        case None:
            return Text("-", style="dim")
        case bool():
            return Text("yes", style="green") if value else Text("no", style="red")
        case _:
            return Text(clean(_words(value)))


def _words(value: Any) -> str:
    match value:
        case datetime():
            return value.astimezone().strftime("%Y-%m-%d %H:%M:%S")
        case str() | int() | float() | timedelta():
            return str(value)
        case _:
            return compact(value)


def compact(value: Any) -> str:
    return json.dumps(plain(value), ensure_ascii=False)


def clean(text: str) -> str:
    """Escape control characters: a terminal must not obey a queue's name or a payload."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def plain(value: Any) -> Any:
    """Reduce a value to what JSON knows; durations become seconds, times ISO 8601."""
    match value:
        case datetime():
            return value.isoformat()
        case timedelta():
            return value.total_seconds()
        case Enum():
            return value.value
        case Mapping():
            return {str(name): plain(item) for name, item in value.items()}
        case list() | tuple():
            return [plain(item) for item in value]
        case _:
            return value


def fields(item: Any) -> dict[str, Any]:
    """The fields of a frozen model, as they are: payloads are not copied deeply."""
    if isinstance(item, msgspec.Struct):
        return {name: getattr(item, name) for name in item.__struct_fields__}
    return {field.name: getattr(item, field.name) for field in dataclasses.fields(item)}
