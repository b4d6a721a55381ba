"""penstock message export: a queue, a topic's log or the dead letters, into a file.

From top to bottom: the command, what it reads (a `Source`), and where it writes (a `Sink`).

A sink says how far it has come only after what it wrote is on the disk, so a state never promises
what is not there; what was written after the last state is cut off when it goes on.
"""

from __future__ import annotations

import csv
import io
import json
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Protocol

import msgspec
import typer

from penstock.cli.file_formats import AS_JSON, NUMBERS, TIMES, Format, format_of
from penstock.cli.output import fields, plain
from penstock.cli.session import Session
from penstock.client import calls
from penstock.client.calls import transfers

EXAMPLE = "penstock message export orders --log --output orders.jsonl"
PAGE = 1000
# A part is held in memory until it is whole.
PART_ROWS, PART_BYTES = 50_000, 64 * 1024 * 1024

Record = dict[str, Any]


def export(
    session: Session,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The queue; with --log, the topic.")],
    *,
    log: Annotated[bool, typer.Option("--log", help="All that is kept of a topic.")] = False,
    dead: Annotated[bool, typer.Option("--dead", help="The queue's dead letters.")] = False,
    output: Annotated[
        str | None,
        typer.Option("--output", "-o", metavar="PATH", help="Where to.", show_default="stdout"),
    ] = None,
    format_: Annotated[
        Format | None,
        typer.Option("--format", help="Default: what the name of the file tells, else jsonl."),
    ] = None,
    after: Annotated[
        int | None, typer.Option(metavar="PLACE", help="Begin after this.", show_default=False)
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with an export that was interrupted.")
    ] = False,
) -> None:
    """Write messages to a file, as JSON lines, CSV or a folder of Parquet files; none is claimed.

    All that is there when it begins is in it; what comes meanwhile may be.
    """
    if log and dead:
        raise typer.BadParameter("choose one of --log and --dead")
    source = _source(name, log=log, dead=dead)
    state = State(source.kind, name, format_of(format_, output, "--output"), after or 0)
    _check_exists(session, source)
    sink = open_sink(output, state, source.columns, resume=resume)
    try:
        _copy(session, source, sink)
    except KeyboardInterrupt:
        again = "--resume" if output not in (None, "-") else f"--after {sink.state.after}"
        session.output.note(f"stopped after {sink.state.rows} messages; go on with {again}")
        raise
    finally:
        sink.close()
    if output not in (None, "-"):
        facts = {"source": source.kind, "name": name, "exported": sink.state.rows, "file": output}
        session.output.done(facts, f"exported {sink.state.rows} messages to {output}")


def _source(name: str, *, log: bool, dead: bool) -> Source:
    if log:
        return of_topic(name)
    return of_dead_letters(name) if dead else of_queue(name)


def _check_exists(session: Session, source: Source) -> None:
    """Ask before a file is made."""
    source.page(session, 2**62)


def _copy(session: Session, source: Source, sink: Sink) -> None:
    with session.output.progress() as progress:
        task = progress.add_task(f"exporting {source.name}", total=_total(session, source))
        progress.advance(task, sink.state.rows)
        for after, records in source.pages(session, sink.state.after):
            sink.write(records, after)
            progress.advance(task, len(records))
    sink.finish()


def _total(session: Session, source: Source) -> int | None:
    """The bar's total; None for a topic: its log can't be counted without reading it."""
    if source.kind == "topic" or not session.output.aside.is_terminal:
        return None
    counted = session.run(calls.queue_statistics(source.name))
    if source.kind == "queue":
        return counted.pending_count + counted.processing_count
    return counted.dead_count


@dataclass(frozen=True, slots=True)
class Source:
    """What is exported: its kind and name, its columns, and the function that gets a page."""

    kind: str
    name: str
    columns: tuple[str, ...]
    page: Callable[[Session, int], list[tuple[int, Record]]]

    def pages(self, session: Session, after: int) -> Iterator[tuple[int, list[Record]]]:
        """Each page with the place from which the next one goes on; the end is a short page."""
        while found := self.page(session, after):
            after = found[-1][0]
            yield after, [record for _, record in found]
            if len(found) < PAGE:
                return


_COMMON = ("payload", "headers", "key", "priority", "correlation_id", "tenant_id", "published_at")


def of_queue(name: str) -> Source:
    """What the queue is not done with."""

    def page(session: Session, after: int) -> list[tuple[int, Record]]:
        found = session.run(calls.browse(name, after=after, page_size=PAGE))
        return [(each.id, fields(each)) for each in found]

    return Source("queue", name, ("id", *_COMMON, "state", "attempt", "visible_at"), page)


def of_topic(name: str) -> Source:
    """All messages that the log still keeps, read or not."""

    def page(session: Session, after: int) -> list[tuple[int, Record]]:
        found = session.run(transfers.browse_topic(name, after=after, page_size=PAGE))
        return [(each.id, fields(each)) for each in found]

    return Source("topic", name, ("id", *_COMMON, "deliver_after", "expires_at"), page)


def of_dead_letters(name: str) -> Source:
    """The queue's dead letters, with their last error and their attempts."""

    def page(session: Session, after: int) -> list[tuple[int, Record]]:
        found = session.run(transfers.dead_letter_page(name, after=after, page_size=PAGE))
        return [(each.place, _dead(fields(each.letter))) for each in found]

    columns = ("id", *_COMMON, "queue", "attempts", "error", "died_at", "history")
    return Source("dead letters", name, columns, page)


def _dead(record: Record) -> Record:
    return {"id": record.pop("message_id"), **record}


class State(msgspec.Struct):
    """How far an export has come."""

    kind: str
    name: str
    format: str
    after: int = 0
    rows: int = 0
    length: int = 0
    """Bytes of the file, or parts of the folder, that are whole."""


class Sink(Protocol):
    """Takes pages; `state` tells how far they are safe."""

    state: State

    def write(self, records: list[Record], after: int) -> None: ...

    def finish(self) -> None: ...

    def close(self) -> None: ...


def open_sink(path: str | None, state: State, columns: tuple[str, ...], *, resume: bool) -> Sink:
    """The sink for this path: new, or gone on with where the one before stopped."""
    if path in (None, "-"):
        if state.format == Format.PARQUET:
            raise typer.BadParameter("Parquet needs a place: add --output", param_hint="--format")
        return StdoutSink(state, columns)
    place = Path(path or "")
    kind = ParquetSink if state.format == Format.PARQUET else FileSink
    note = state_file(place, state.format)
    if resume:
        state = _found(note, state)
        _check_whole(place, state)
    elif place.exists() or note.exists():
        advice = "add --resume to go on with it" if note.exists() else "choose another name"
        raise typer.BadParameter(f"{place} exists already; {advice}", param_hint="--output")
    return kind(place, note, state, columns)


def state_file(place: Path, format_: str) -> Path:
    """Where it is written how far an export has come; it is gone when all of it is there."""
    if format_ == Format.PARQUET:
        # Readers of such folders pass over names that begin with an underscore.
        return place / "_penstock-export.json"
    return place.with_name(place.name + ".export")


def _found(note: Path, wanted: State) -> State:
    if not note.exists():
        return wanted
    found = msgspec.json.decode(note.read_bytes(), type=State)
    if (found.kind, found.name, found.format) != (wanted.kind, wanted.name, wanted.format):
        raise typer.BadParameter(
            f"{note} is of another export: {found.kind} {found.name} as {found.format}",
            param_hint="--resume",
        )
    return found


def _check_whole(place: Path, state: State) -> None:
    """What the state promises must still be there, or going on would leave a hole."""
    if state.format == Format.PARQUET:
        whole = all((place / _part(number)).exists() for number in range(state.length))
    else:
        whole = state.length == 0 or (place.exists() and place.stat().st_size >= state.length)
    if not whole:
        raise typer.BadParameter(
            f"{place} was changed since: delete it with its state, and begin again",
            param_hint="--resume",
        )


def _part(number: int) -> str:
    return f"part-{number:05}.parquet"


def _save(note: Path, state: State) -> None:
    new = note.with_name(note.name + ".new")
    with new.open("wb") as stream:
        stream.write(msgspec.json.encode(state))
        stream.flush()
        os.fsync(stream.fileno())
    new.replace(note)


def rendered(records: list[Record], columns: tuple[str, ...], state: State) -> str:
    """A page as text; the first page of a CSV begins with the names of its columns."""
    if state.format == Format.JSONL:
        return "".join(
            json.dumps({name: plain(record[name]) for name in columns}, ensure_ascii=False) + "\n"
            for record in records
        )
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    if state.rows == 0:
        writer.writerow(columns)
    writer.writerows([_cell(name, record[name]) for name in columns] for record in records)
    return text.getvalue()


def _cell(name: str, value: Any) -> Any:
    """CSV knows text only: JSON where a column holds JSON, nothing for null."""
    if value is None and name != "payload":
        return ""
    return json.dumps(plain(value), ensure_ascii=False) if name in AS_JSON else plain(value)


class StdoutSink:
    """Standard output."""

    def __init__(self, state: State, columns: tuple[str, ...]) -> None:
        self.state, self._columns = state, columns

    def write(self, records: list[Record], after: int) -> None:
        sys.stdout.write(rendered(records, self._columns, self.state))
        sys.stdout.flush()
        self.state.after, self.state.rows = after, self.state.rows + len(records)

    def finish(self) -> None:
        """Nothing is left to do."""

    def close(self) -> None:
        """Standard output stays open."""


class FileSink:
    """JSON lines or CSV."""

    def __init__(self, place: Path, note: Path, state: State, columns: tuple[str, ...]) -> None:
        self.state, self._columns, self._note = state, columns, note
        self._stream = place.open("r+b" if place.exists() else "wb")
        self._stream.truncate(state.length)
        self._stream.seek(state.length)
        _save(note, state)

    def write(self, records: list[Record], after: int) -> None:
        text = rendered(records, self._columns, self.state).encode()
        self._stream.write(text)
        self._stream.flush()
        os.fsync(self._stream.fileno())
        self.state.after, self.state.rows = after, self.state.rows + len(records)
        self.state.length += len(text)
        _save(self._note, self.state)

    def finish(self) -> None:
        self._note.unlink()

    def close(self) -> None:
        self._stream.close()


class ParquetSink:
    """A folder of Parquet files, each of them whole."""

    def __init__(self, place: Path, note: Path, state: State, columns: tuple[str, ...]) -> None:
        self.state, self._columns, self._place, self._note = state, columns, place, note
        place.mkdir(parents=True, exist_ok=True)
        self._held: list[Record] = []
        self._bytes = 0
        self._after = state.after
        _save(note, state)

    def write(self, records: list[Record], after: int) -> None:
        cells = [
            {name: _parquet(name, record[name]) for name in self._columns} for record in records
        ]
        self._held += cells
        self._bytes += sum(len(cell["payload"]) for cell in cells)
        self._after = after
        if len(self._held) >= PART_ROWS or self._bytes >= PART_BYTES:
            self._flush()

    def finish(self) -> None:
        if self._held or self.state.length == 0:
            self._flush()
        self._note.unlink()

    def close(self) -> None:
        """What is held was not promised by any state."""

    def _flush(self) -> None:
        import pyarrow as pa
        from pyarrow import parquet

        schema = pa.schema([(name, _type(pa, name)) for name in self._columns])
        whole = self._place / _part(self.state.length)
        new = whole.with_name(f"_{whole.name}.new")
        parquet.write_table(pa.Table.from_pylist(self._held, schema=schema), new)
        new.replace(whole)
        self.state.after, self.state.rows = self._after, self.state.rows + len(self._held)
        self.state.length += 1
        self._held, self._bytes = [], 0
        _save(self._note, self.state)


def _parquet(name: str, value: Any) -> Any:
    if name == "payload" or (value is not None and name in AS_JSON):
        return json.dumps(plain(value), ensure_ascii=False)
    return value if name in TIMES else plain(value)


def _type(pa: Any, name: str) -> Any:
    if name in TIMES:
        return pa.timestamp("us", tz="UTC")
    return pa.int64() if name in NUMBERS else pa.string()
