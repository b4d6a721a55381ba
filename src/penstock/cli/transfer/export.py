"""penstock message export: a queue, a topic's log or the dead letters, into a file."""

from __future__ import annotations

from typing import Annotated

import typer

from penstock.cli.session import Session
from penstock.cli.transfer import sinks, sources
from penstock.cli.transfer.formats import Format, chosen
from penstock.client import calls

EXAMPLE = "penstock message export orders --log --output orders.jsonl"


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
    state = sinks.State(source.kind, name, chosen(format_, output, "--output"), after or 0)
    _check_exists(session, source)
    sink = sinks.opened(output, state, source.columns, resume=resume)
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


def _source(name: str, *, log: bool, dead: bool) -> sources.Source:
    if log:
        return sources.of_topic(name)
    return sources.of_dead_letters(name) if dead else sources.of_queue(name)


def _check_exists(session: Session, source: sources.Source) -> None:
    """Ask before a file is made."""
    source.page(session, 2**62)


def _copy(session: Session, source: sources.Source, sink: sinks.Sink) -> None:
    with session.output.progress() as progress:
        task = progress.add_task(f"exporting {source.name}", total=_total(session, source))
        progress.advance(task, sink.state.rows)
        for after, records in source.pages(session, sink.state.after):
            sink.write(records, after)
            progress.advance(task, len(records))
    sink.finish()


def _total(session: Session, source: sources.Source) -> int | None:
    """The bar's total; None for a topic: its log can't be counted without reading it."""
    if source.kind == "topic" or not session.output.aside.is_terminal:
        return None
    counted = session.run(calls.queue_statistics(source.name))
    if source.kind == "queue":
        return counted.pending_count + counted.processing_count
    return counted.dead_count
