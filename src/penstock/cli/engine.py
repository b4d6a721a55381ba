"""penstock init and maintain: put the engine into a database or take it out; its housekeeping."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Annotated

import typer

from penstock import schema
from penstock.cli.arguments import Yes, duration_option
from penstock.cli.output import fields
from penstock.cli.session import ReconnectingCaller, Session, command
from penstock.client._sync.maintenance import maintain as run_steps
from penstock.errors import DatabaseUnavailable
from penstock.models import MaintenanceStep


def init(
    session: Session,
    remove: Annotated[
        bool, typer.Option("--remove", help="Remove the engine and every message in it.")
    ] = False,
    yes: Yes = False,
) -> None:
    """Install the engine in a database, or bring it up to date. Running it again is harmless."""
    if remove:
        _remove(session, yes=yes)
    else:
        _install(session)


def _install(session: Session) -> None:
    connection = session.connect()
    before = schema.installed_version(connection)
    with connection.answering(None):
        schema.install(connection)
    now = schema.installed_version(connection)
    facts = {"database": connection.info.dbname, "version_before": before, "version": now}
    session.output.done(facts, f"database {connection.info.dbname}: {_change(before, now)}")


def _change(before: int | None, now: int | None) -> str:
    if before is None:
        return f"the engine is installed, version {now}"
    if before != now:
        return f"the engine is upgraded from version {before} to {now}"
    return f"the engine is in place, version {now}"


def _remove(session: Session, *, yes: bool) -> None:
    connection = session.connect()
    database = connection.info.dbname
    session.confirm(f"Remove Penstock and every message from database {database}?", yes=yes)
    with connection.answering(None):
        schema.uninstall(connection)
    session.output.done(
        {"database": database, "removed": True}, f"database {database}: the engine is removed"
    )


def maintain(
    session: Session,
    every: Annotated[
        timedelta | None, duration_option("--every", help="Repeat until Ctrl-C.")
    ] = None,
) -> None:
    """Do all housekeeping: expired claims, segments, exclusive queues, old history.

    Safe to run from everywhere at once. Workers do it too; consuming never depends on it. A step
    that fails stops no other: it is told, and ends a single run with exit code 1.
    """
    if every is None:
        steps = run_steps(session.run)
        columns = ("step", "affected", *(["error"] if any(step.error for step in steps) else []))
        session.output.table([fields(step) for step in steps], *columns, empty="nothing")
        if any(step.error for step in steps):
            raise typer.Exit(1)
    else:
        _repeat(session, every)


def _repeat(session: Session, every: timedelta) -> None:
    """A restart of the database, or its fail-over, is waited out; what can't pass is raised."""
    ask = ReconnectingCaller(session)
    session.output.note(f"maintaining every {every}; Ctrl-C ends it")
    try:
        while True:
            try:
                _report(session, run_steps(ask))
            except DatabaseUnavailable:
                session.output.note(f"{_now()}  the database can't be reached; trying again")
            time.sleep(every.total_seconds())
    except KeyboardInterrupt:
        session.output.note("ended")


def _report(session: Session, steps: list[MaintenanceStep]) -> None:
    affected = {step.step: step.affected for step in steps}
    busy = ", ".join(f"{step} {count}" for step, count in affected.items() if count)
    session.output.line(affected, f"{_now()}  {busy or 'nothing to do'}")
    for step in steps:
        if step.error is not None:
            session.output.note(f"{_now()}  {step.step} failed: {step.error}")


def _now() -> str:
    return time.strftime("%H:%M:%S")


def register(app: typer.Typer) -> None:
    command(app, example="penstock init --dsn postgresql://localhost/shop")(init)
    command(app, example="penstock maintain --every 30s")(maintain)
