"""What an import reads: files of the export's formats, as messages to be published."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, TextIO

import typer

from penstock.cli import values
from penstock.cli.transfer.formats import AS_JSON, HISTORY, NUMBERS, PUBLISHED, TIMES, Format
from penstock.client.outgoing import Outgoing

Record = dict[str, Any]
_KNOWN = frozenset({*PUBLISHED, *HISTORY})


def messages(path: Path, format_: Format, *, raw: bool, name: str) -> Iterator[Outgoing]:
    """Each row of the file as a message; a bad one is told with its number."""
    to_message: Callable[[Any], Outgoing] = Outgoing if raw else _message
    for number, row in enumerate(_rows(path, format_, raw=raw, name=name), start=1):
        try:
            yield to_message(row() if callable(row) else row)
        except ValueError as problem:
            raise _bad(name, number, problem) from None


def _rows(path: Path, format_: Format, *, raw: bool, name: str) -> Iterator[Any]:
    if format_ is Format.PARQUET:
        yield from _parquet(path, raw=raw)
        return
    try:
        with path.open(encoding="utf-8", newline="") as stream:
            yield from _json_lines(stream) if format_ is Format.JSONL else _csv(stream, raw=raw)
    except UnicodeDecodeError:
        raise _unusable(f"{name} is not UTF-8 text") from None
    except csv.Error as problem:
        raise _unusable(f"{name} is not CSV: {problem}") from None


def _json_lines(stream: TextIO) -> Iterator[Callable[[], Any]]:
    for line in stream:
        if line.strip():
            yield partial(values.parse_json, line)


def _csv(stream: TextIO, *, raw: bool) -> Iterator[Any]:
    csv.field_size_limit(2**31 - 1)
    for row in csv.DictReader(stream, strict=True):
        yield row if raw else partial(_cells, row)


def _cells(row: dict[Any, Any]) -> Record:
    if None in row or None in row.values():
        raise ValueError("it has more or fewer cells than the first line")
    return {name: _cell(name, text) for name, text in row.items()}


def _cell(name: str, text: str) -> Any:
    if text == "":
        return None
    if name in AS_JSON:
        return values.parse_json(text)
    return int(text) if name in NUMBERS else text


def _parquet(path: Path, *, raw: bool) -> Iterator[Any]:
    import pyarrow as pa
    from pyarrow import dataset

    try:
        for batch in dataset.dataset(path, format="parquet").to_batches(batch_size=1000):
            for row in batch.to_pylist():
                yield _jsonable(row) if raw else partial(_decoded, row)
    except pa.ArrowInvalid as problem:
        raise _unusable(f"{path.name} is not Parquet: {problem}") from None


def _decoded(row: Record) -> Record:
    return {
        name: values.parse_json(value) if name in AS_JSON and isinstance(value, str) else value
        for name, value in row.items()
    }


def _jsonable(row: Record) -> Any:
    return json.loads(json.dumps(row, default=str))


def _message(record: Any) -> Outgoing:
    if not isinstance(record, dict):
        raise ValueError("it is no object; if it is a payload as it is, add --raw")  # noqa: TRY004
    if "payload" not in record:
        raise ValueError("it has no payload; if it is a payload as it is, add --raw")
    unknown = sorted(record.keys() - _KNOWN)
    if unknown:
        raise ValueError(f"it has a field {unknown[0]!r} that no message has; known: {_list()}")
    given = {name: record[name] for name in PUBLISHED if record.get(name) is not None}
    return Outgoing(**{"payload": record["payload"], **_typed(given)})


def _list() -> str:
    return ", ".join(PUBLISHED)


def _typed(given: Record) -> Record:
    for name in TIMES & given.keys():
        if isinstance(given[name], str):
            given[name] = datetime.fromisoformat(given[name])
        if not isinstance(given[name], datetime):
            raise ValueError(f"its {name} is no time")  # noqa: TRY004
        if given[name].tzinfo is None:
            raise ValueError(f"{name} has no time zone")
    if not isinstance(given.get("priority", 0), int):
        raise ValueError("its priority is no number")  # noqa: TRY004
    if not isinstance(given.get("headers", {}), dict):
        raise ValueError("its headers are no object")  # noqa: TRY004
    for name in ("key", "correlation_id", "tenant_id"):
        if not isinstance(text := given.get(name, ""), str):
            raise ValueError(f"its {name} is no text")  # noqa: TRY004
        if "\0" in text or any("\ud800" <= each <= "\udfff" for each in text):
            raise ValueError(f"its {name} holds U+0000 or half of a surrogate pair")
    return given


def _bad(name: str, number: int, problem: Exception) -> typer.BadParameter:
    return _unusable(f"{name}, row {number}: {problem}; nothing was published")


def _unusable(problem: str) -> typer.BadParameter:
    return typer.BadParameter(problem, param_hint="FILE")
