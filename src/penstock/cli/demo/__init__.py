"""penstock demo: an order stream, three queues, and what becomes of every order."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from penstock.cli.command import command
from penstock.cli.demo import finale, screen, show, stage, story
from penstock.cli.output import error, fields
from penstock.cli.session import Session, connect

FAILED = 1


def demo(
    session: Session,
    *,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="FOLDER",
            help="Where the archive and the report go.",
            show_default="the user's data folder",
        ),
    ] = None,
    no_spark: Annotated[
        bool, typer.Option("--no-spark", help="Without the archive and the report.")
    ] = False,
) -> None:
    """Publish an order stream to three queues and show what becomes of it, in under a minute.

    Everything happens in a throw-away topic that is removed at the end. What stays is an archive of
    the orders and a report to look at, if the package was installed with its extra spark.
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
        _last_act(session, script, out) if not no_spark and finale.is_possible() else None,
    )
    _tell(session, report)
    if not report.ok:
        error("the accounts do not add up: see the lines marked ✗")
        raise typer.Exit(FAILED)


def _last_act(
    session: Session, script: story.Script, out: Path | None
) -> Callable[[stage.Stage], finale.Finale]:
    folder = (out or finale.default_folder()).expanduser().absolute()

    def act(where: stage.Stage) -> finale.Finale:
        return finale.play(session.dsn, where, script, folder, session.output.note)

    return act


def _tell(session: Session, report: show.Report) -> None:
    if session.output.json:
        session.output.record(
            {
                "queues": [fields(line) for line in report.lines],
                "findings": [fields(finding) for finding in report.findings],
                "seconds": report.seconds,
                "ok": report.ok,
                "archive": report.finale and report.finale.archive,
                "report": report.finale and report.finale.report,
            }
        )
        return
    screen.summary(session.output.people, report.lines, report.findings)
    if report.finale is not None:
        screen.finale(session.output.people, report.finale)
    elif not finale.is_possible():
        session.output.note(finale.MISSING)
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
