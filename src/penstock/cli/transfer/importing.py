"""penstock message import: what an export wrote becomes messages of a topic.

The file is read twice: first to see that all of it is sound, and to know it again by its digest;
then to publish it.  How far it has come is written in the transaction that publishes, so an import
that is repeated, wherever it stopped and however, doubles nothing and leaves nothing out.
"""

from __future__ import annotations

import hashlib
import secrets
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Annotated

import typer

from penstock.cli.arguments import TopicName
from penstock.cli.session import Session
from penstock.cli.transfer import reading, sinks
from penstock.cli.transfer.formats import Format, chosen
from penstock.client import calls, outgoing
from penstock.client.calls import transfers
from penstock.errors import translated

EXAMPLE = "penstock message import orders orders.jsonl"
BATCH = 5000


@dataclass(frozen=True, slots=True)
class Given:
    """The file as the person named it, and as it can be read again."""

    name: str
    path: Path
    format: Format
    raw: bool

    def messages(self) -> Iterator[outgoing.Outgoing]:
        return reading.messages(self.path, self.format, raw=self.raw, name=self.name)


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
) -> None:
    """Publish every message of a file, with COPY, in batches of 5,000.

    A file that was imported into the topic is not imported twice; one that was interrupted goes on
    where it stopped.
    """
    with _readable(file) as path:
        given = Given(file, path, chosen(format_, file, "FILE"), raw)
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


def _check_finished(given: Given) -> None:
    if sinks.note_of(given.path, given.format).exists():
        raise typer.BadParameter(
            f"the export to {given.name} was not finished: go on with it by --resume first",
            param_hint="FILE",
        )


def _source(given: Given, ledger: str | None, *, again: bool) -> str:
    name = f"ledger {ledger}" if ledger else f"sha256 {_digest(given.path)} raw={given.raw}"
    return f"{name} again {secrets.token_hex(8)}" if again else name


def _digest(path: Path) -> str:
    digest = hashlib.sha256()
    for part in sorted(path.rglob("*.parquet")) if path.is_dir() else [path]:
        with part.open("rb") as stream:
            digest.update(hashlib.file_digest(stream, "sha256").digest())
    return digest.hexdigest()


def _publish(
    session: Session, topic: str, given: Given, *, source: str, before: int, total: int
) -> None:
    done = before
    rest = islice(given.messages(), before, None)
    with session.output.progress() as progress:
        task = progress.add_task(f"importing into {topic}", total=total, completed=before)
        while batch := outgoing.lines(islice(rest, BATCH)):
            _publish_batch(session, topic, batch, source, done)
            done += len(batch)
            progress.update(task, completed=done)


def _publish_batch(
    session: Session, topic: str, batch: list[outgoing.Line], source: str, done: int
) -> None:
    """The messages and the line in the ledger: both, or neither."""
    with translated(), session.connection.transaction():
        # First, because it locks: of two imports of one file the second learns it here.
        session.run(transfers.note_import(source, topic, done, done + len(batch)))
        session.run(calls.create_stage())
        with session.connection.cursor().copy(outgoing.COPY) as copy:
            for line in batch:
                copy.write_row(line)
        session.run(calls.publish_stage(topic))
