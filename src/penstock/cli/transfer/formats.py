"""The formats, and the columns that an exported message has in each of them."""

from __future__ import annotations

import importlib.util
from enum import StrEnum
from pathlib import PurePath

import typer


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


def chosen(given: Format | None, path: str | None, option: str) -> Format:
    """The format that was asked for, or that the file's name tells."""
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
