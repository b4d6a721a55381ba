"""penstock message import: what an export wrote becomes messages of a topic.

The file is read twice: first to see that all of it is sound, and to know it again by its digest;
then to publish it.  How far it has come is written in the transaction that publishes, so an import
that is repeated, wherever it stopped and however, doubles nothing and leaves nothing out.
"""

from __future__ import annotations

import csv
import hashlib
import json
import secrets
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import typer

from penstock.cli import arguments
from penstock.cli.arguments import TopicName
from penstock.cli.file_formats import (
    AS_JSON,
    BATCH_BYTES,
    HISTORY,
    LONGEST_LINE,
    MIB,
    NUMBERS,
    PUBLISHED,
    TIMES,
    Format,
    Lines,
    MaxLine,
    format_of,
)
from penstock.cli.message_export import state_file
from penstock.cli.session import Session
from penstock.client import calls, outgoing
from penstock.client.calls import transfers
from penstock.client.outgoing import Outgoing

EXAMPLE = "penstock message import orders orders.jsonl"
BATCH = 5000

Record = dict[str, Any]
_KNOWN = frozenset({*PUBLISHED, *HISTORY})


def import_(
    session: Session,
    topic: TopicName,
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="A file or folder that was exported; - is stdin.")
    ],
    *,
    format_: Annotated[
        Format | None,
        typer.Option("--format", help="Default: what the name of the file tells, else jsonl."),
    ] = None,
    raw: Annotated[
        bool, typer.Option("--raw", help="Each row is a payload, and nothing else of a message.")
    ] = False,
    ledger: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Know it again by this name, not by its content."),
    ] = None,
    again: Annotated[
        bool, typer.Option("--again", help="Import it although it was imported before.")
    ] = False,
    max_line: MaxLine = LONGEST_LINE,
) -> None:
    """Publish every message of a file, with COPY, in batches of 5,000.

    A file that was imported into the topic is not imported twice; one that was interrupted goes on
    where it stopped.
    """
    with _readable(file) as path:
        given = ImportFile(file, path, format_of(format_, file, "FILE"), raw, max_line)
        _check_finished(given)
        total = sum(1 for _ in given.messages())
        source = _source(given, ledger, again=again)
        before = session.run(transfers.import_progress(source, topic))
        _publish(session, topic, given, source=source, before=before, total=total)
    facts = {"topic": topic, "imported": max(0, total - before), "before": before, "rows": total}
    session.output.done(facts, _sentence(total, before))


def _sentence(total: int, before: int) -> str:
    if before >= total > 0:
        return "all of it was imported before; --again imports it once more"
    more = f", after {before} that were there" if before else ""
    return f"imported {total - before} messages{more}"


@contextmanager
def _readable(file: str) -> Iterator[Path]:
    """The file; what comes through a pipe is kept until it has been read twice."""
    if file == "-":
        with tempfile.NamedTemporaryFile(prefix="penstock-import-") as kept:
            shutil.copyfileobj(sys.stdin.buffer, kept)
            kept.flush()
            yield Path(kept.name)
        return
    path = Path(file)
    if not path.exists():
        raise typer.BadParameter(f"{file} does not exist", param_hint="FILE")
    yield path


def _check_finished(given: ImportFile) -> None:
    if state_file(given.path, given.format).exists():
        raise typer.BadParameter(
            f"the export to {given.name} was not finished: go on with it by --resume first",
            param_hint="FILE",
        )


def _source(given: ImportFile, ledger: str | None, *, again: bool) -> str:
    name = f"ledger {ledger}" if ledger else f"sha256 {_digest(given.path)} raw={given.raw}"
    return f"{name} again {secrets.token_hex(8)}" if again else name


def _digest(path: Path) -> str:
    digest = hashlib.sha256()
    for part in sorted(path.rglob("*.parquet")) if path.is_dir() else [path]:
        with part.open("rb") as stream:
            digest.update(hashlib.file_digest(stream, "sha256").digest())
    return digest.hexdigest()


def _publish(
    session: Session, topic: str, given: ImportFile, *, source: str, before: int, total: int
) -> None:
    done = before
    rest = islice(given.messages(), before, None)
    with session.output.progress() as progress:
        task = progress.add_task(f"importing into {topic}", total=total, completed=before)
        for batch in _batches(rest):
            _publish_batch(session, topic, batch, source, done)
            done += len(batch)
            progress.update(task, completed=done)


def _batches(messages: Iterable[Outgoing]) -> Iterator[list[outgoing.Line]]:
    """Messages that are published together, as rows; all are encoded before the first is sent."""
    batch: list[outgoing.Line] = []
    length = 0
    for message in messages:
        batch += outgoing.lines([message])
        length += len(str(batch[-1][0]))
        if len(batch) == BATCH or length >= BATCH_BYTES:
            yield batch
            batch, length = [], 0
    if batch:
        yield batch


def _publish_batch(
    session: Session, topic: str, batch: list[outgoing.Line], source: str, done: int
) -> None:
    """The messages and the line in the ledger: both, or neither."""
    with session.transaction() as connection:
        # First, because it locks: of two imports of one file the second learns it here.
        session.run(transfers.note_import(source, topic, done, done + len(batch)))
        session.run(calls.create_stage())
        with connection.cursor().copy(outgoing.COPY) as copy:
            for line in batch:
                copy.write_row(line)
        session.run(calls.publish_stage(topic))


# What the rows of a file mean.


@dataclass(frozen=True, slots=True)
class ImportFile:
    """The file: the name that was given, and the path where it can be read twice."""

    name: str
    path: Path
    format: Format
    raw: bool
    max_line: int = LONGEST_LINE

    def messages(self) -> Iterator[Outgoing]:
        """Each row of the file as a message; the error for a bad one names its number."""
        to_message: Callable[[Any], Outgoing] = Outgoing if self.raw else _message
        for number, row in enumerate(self._rows(), start=1):
            try:
                yield to_message(row() if callable(row) else row)
            except ValueError as problem:
                raise _unusable(
                    f"{self.name}, row {number}: {problem}; nothing was published"
                ) from None

    def _rows(self) -> Iterator[Any]:
        if self.format is Format.PARQUET:
            yield from _parquet(self.path, raw=self.raw)
            return
        try:
            with self.path.open(encoding="utf-8", newline="") as stream:
                lines = Lines(stream, self.name, self.max_line, "FILE")
                is_json = self.format is Format.JSONL
                yield from _json_lines(lines) if is_json else self._csv(lines)
        except UnicodeDecodeError:
            raise _unusable(f"{self.name} is not UTF-8 text") from None
        except csv.Error as problem:
            raise _unusable(f"{self.name} is not CSV: {problem}") from None

    def _csv(self, lines: Lines) -> Iterator[Any]:
        csv.field_size_limit(self.max_line * MIB)
        rows = csv.DictReader(lines, strict=True)
        if rows.fieldnames is None:
            return
        lines.start_record()
        for row in rows:
            yield row if self.raw else partial(_cells, row)
            lines.start_record()


def _json_lines(lines: Lines) -> Iterator[Callable[[], Any]]:
    for line in lines:
        if line.strip():
            yield partial(arguments.parse_json, line)
        lines.start_record()


def _cells(row: dict[Any, Any]) -> Record:
    if None in row or None in row.values():
        raise ValueError("it has more or fewer cells than the first line")
    return {name: _cell(name, text) for name, text in row.items()}


def _cell(name: str, text: str) -> Any:
    if text == "":
        return None
    if name in AS_JSON:
        return arguments.parse_json(text)
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
        name: arguments.parse_json(value) if name in AS_JSON and isinstance(value, str) else value
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


def _unusable(problem: str) -> typer.BadParameter:
    return typer.BadParameter(problem, param_hint="FILE")
