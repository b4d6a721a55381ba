"""Files of messages: their formats, the columns of an exported message, and lines with a limit."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from enum import StrEnum
from pathlib import PurePath
from typing import Annotated, TextIO

import typer

MIB = 1024 * 1024
# The engine takes messages of 16 MiB, unless it is configured otherwise.  As text, with escapes,
# a message may be longer than in the database.
LONGEST_LINE = 64
# What is sent to the database at a time is limited in bytes too.
BATCH_BYTES = 16 * MIB

MaxLine = Annotated[
    int,
    typer.Option(
        "--max-line",
        min=1,
        metavar="MIB",
        help="The longest line, in MiB. Default: 64; the engine takes messages of 16.",
    ),
]


class Format(StrEnum):
    """How messages are written."""

    JSONL = "jsonl"
    CSV = "csv"
    PARQUET = "parquet"


_SUFFIXES = {
    ".jsonl": Format.JSONL,
    ".ndjson": Format.JSONL,
    ".json": Format.JSONL,
    ".csv": Format.CSV,
    ".parquet": Format.PARQUET,
}

# What an import reads; everything else that an export writes is history, and passed over.
PUBLISHED = (
    *("payload", "headers", "key", "priority", "deliver_after", "expires_at"),
    *("correlation_id", "tenant_id"),
)
HISTORY = (
    *("id", "published_at", "state", "attempt", "visible_at"),
    *("queue", "attempts", "error", "died_at", "history"),
)
# JSON inside a cell, where a column has one type.
AS_JSON = frozenset({"payload", "headers", "history"})
TIMES = frozenset({"deliver_after", "expires_at", "published_at", "visible_at", "died_at"})
NUMBERS = frozenset({"id", "priority", "attempt", "attempts"})


def format_of(given: Format | None, path: str | None, option: str) -> Format:
    """The format that was asked for, or that of the file's name."""
    found = given or _SUFFIXES.get(PurePath(path or "").suffix.lower())
    if found is None and path not in (None, "-"):
        raise typer.BadParameter(
            f"{path}: the name does not tell the format; add --format jsonl, csv or parquet",
            param_hint=option,
        )
    found = found or Format.JSONL
    if found is Format.PARQUET:
        _require_parquet()
    return found


def _require_parquet() -> None:
    if importlib.util.find_spec("pyarrow") is None:
        raise typer.BadParameter(
            'Parquet needs pyarrow: pip install "penstock-mq[parquet]"', param_hint="--format"
        )


class Lines(Iterator[str]):
    """The lines of a text, each read with a limit; `number` is that of the line read last.

    A record of CSV may have several lines.  They count together: `start_record` says where one
    begins.
    """

    def __init__(self, stream: TextIO, name: str, most: int, option: str) -> None:
        self.number = 0
        self._stream, self._name, self._most, self._option = stream, name, most, option
        self._first, self._bytes = 1, 0

    def __next__(self) -> str:
        # No line of so many bytes has more characters.
        line = self._stream.readline(self._most * MIB + 1)
        if not line:
            raise StopIteration
        self.number += 1
        self._bytes += size(line)
        if self._bytes > self._most * MIB:
            raise typer.BadParameter(
                f"{self._name}, line {self._first} is longer than {self._most} MiB; nothing was "
                "published. --max-line sets another limit",
                param_hint=self._option,
            )
        return line

    def start_record(self) -> None:
        self._first, self._bytes = self.number + 1, 0


def size(text: str) -> int:
    """The bytes of a text in UTF-8."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
