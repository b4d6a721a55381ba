"""penstock init: put the engine into a database, or take it out."""

from __future__ import annotations

from typing import Annotated

import typer

from penstock import schema
from penstock.cli.arguments import Yes
from penstock.cli.session import Session, command


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


def register(app: typer.Typer) -> None:
    command(app, example="penstock init --dsn postgresql://localhost/shop")(init)
