"""penstock doctor: look at the connection, the versions, the roles and the engine's own health."""

from __future__ import annotations

import platform
from collections.abc import Iterator

import psycopg
import typer

import penstock
from penstock import schema
from penstock.cli.advice import explain
from penstock.cli.command import command
from penstock.cli.output import fields
from penstock.cli.session import AnyConnection, Session
from penstock.client import calls
from penstock.client.blocking import run
from penstock.errors import PenstockError
from penstock.models import HealthCheck
from penstock.observe.health import summary

ROLES = ("penstock_admin", "penstock_publisher", "penstock_consumer", "penstock_monitor")
OLDEST_SERVER = 140000
UNWELL = 1


def doctor(session: Session) -> None:
    """Check that everything is as it should be, and say what to do where it is not.

    The exit code is 1 when something is wrong.
    """
    health = summary(examine(session))
    session.output.table(
        [fields(check) for check in health.checks], "name", "ok", "detail", "advice", empty=""
    )
    if not health.ok:
        raise typer.Exit(UNWELL)


def examine(session: Session) -> Iterator[HealthCheck]:
    """Each check stands on those before it, so the first that fails may be the last."""
    yield _package()
    try:
        connection = session.connection if session.is_embedded else session.connect()
    except PenstockError as problem:
        yield _failed("connection", problem)
        return
    yield _connection(connection)
    yield _server(connection)
    try:
        schema.check(connection)
    except PenstockError as problem:
        yield _failed("engine", problem)
        return
    yield HealthCheck("engine", ok=True, detail=f"version {schema.EXPECTED_VERSION}", advice=None)
    yield _roles(connection)
    yield from _health(connection)


def _package() -> HealthCheck:
    detail = (
        f"penstock {penstock.__version__}, Python {platform.python_version()}, "
        f"psycopg {psycopg.__version__} ({psycopg.pq.__impl__})"
    )
    return HealthCheck("package", ok=True, detail=detail, advice=None)


def _connection(connection: AnyConnection) -> HealthCheck:
    info = connection.info
    detail = f"{info.user} at {info.host}, database {info.dbname}"
    return HealthCheck("connection", ok=True, detail=detail, advice=None)


def _server(connection: AnyConnection) -> HealthCheck:
    version = connection.info.server_version
    return HealthCheck(
        "server",
        ok=version >= OLDEST_SERVER,
        detail=f"PostgreSQL {connection.info.parameter_status('server_version')}",
        advice=None if version >= OLDEST_SERVER else "Penstock needs PostgreSQL 14 or newer",
    )


def _roles(connection: AnyConnection) -> HealthCheck:
    found = connection.execute(
        "select rolname::text, pg_has_role(oid, 'usage') from pg_roles where rolname = any(%s)",
        (list(ROLES),),
    ).fetchall()
    missing = sorted(set(ROLES) - {name for name, _ in found})
    if missing:
        return HealthCheck(
            "roles", ok=False, detail=f"missing: {', '.join(missing)}", advice="run penstock init"
        )
    held = sorted(name for name, mine in found if mine)
    return HealthCheck(
        "roles",
        ok=bool(held),
        detail=f"{connection.info.user} acts as {', '.join(held) or 'none of them'}",
        advice=None if held else f"grant {ROLES[0]} (or a narrower role) to {connection.info.user}",
    )


def _health(connection: AnyConnection) -> list[HealthCheck]:
    try:
        return run(connection, calls.health())
    except PenstockError as problem:
        return [_failed("health", problem)]


def _failed(name: str, problem: PenstockError) -> HealthCheck:
    message, cure = explain(problem)
    return HealthCheck(name, ok=False, detail=message, advice=cure)


def register(app: typer.Typer) -> None:
    command(app, example="penstock doctor --dsn postgresql://localhost/shop")(doctor)
