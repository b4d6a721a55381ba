"""penstock demo: an order stream, three queues, and what becomes of every order."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import typer

from penstock.cli.command import command
from penstock.cli.demo import screen, show, stage, story
from penstock.cli.output import error, fields
from penstock.cli.session import Session, connect

FAILED = 1


def demo(session: Session) -> None:
    """Publish an order stream to three queues and show what becomes of it, in about 15 seconds.

    Everything happens in a throw-away topic that is removed at the end.
    """
    swept = stage.sweep(session.connection)
    if swept:
        session.output.note(f"removed what {swept} interrupted demos had left behind")
    script = story.write()
    session.output.note(f"publishing {len(script.orders):,} orders to 3 queues, about 15 s …")
    report = show.play(
        session.connection,
        lambda: connect(session.dsn, session.settings),
        script,
        session.output.aside if session.output.json else session.output.people,
    )
    _tell(session, report)
    if not report.ok:
        error("the accounts do not add up: see the lines marked ✗")
        raise typer.Exit(FAILED)


def _tell(session: Session, report: show.Report) -> None:
    if session.output.json:
        session.output.record(
            {
                "queues": [fields(line) for line in report.lines],
                "findings": [fields(finding) for finding in report.findings],
                "seconds": report.seconds,
                "ok": report.ok,
            }
        )
        return
    screen.summary(session.output.people, report.lines, report.findings)
    screen.next_steps(session.output.people, _program())


def _program() -> str:
    """How this program can be called again from where the person stands."""
    here = Path(sys.argv[0])
    found = shutil.which("penstock")
    if found and Path(found).resolve() == here.resolve():
        return "penstock"
    try:
        return str(here.resolve().relative_to(Path.cwd()))
    except ValueError:
        return str(here)


def register(app: typer.Typer) -> None:
    command(app, example="penstock demo")(demo)
