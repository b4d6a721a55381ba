"""penstock doctor: check the connection, the versions, the roles and the engine's own health."""

from __future__ import annotations

import asyncio
import platform
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import psycopg
import typer

import penstock
from penstock import schema
from penstock.cli.output import explain, fields
from penstock.cli.session import AnyConnection, Session, TaskSession, command, is_mysql
from penstock.client import calls
from penstock.errors import NotInstalled, PenstockError
from penstock.models import HealthCheck
from penstock.observe.health import summary
from penstock.postgres.call import run
from penstock.tasks import Finding, StoreOptions, open_store

ROLES = ("penstock_admin", "penstock_publisher", "penstock_consumer", "penstock_monitor")
OLDEST_SERVER = 140000
UNWELL = 1
CLOCK_TOLERANCE = timedelta(seconds=5)


def doctor(session: Session | TaskSession) -> None:
    """Check that everything is as it should be, and say what to do where it is not.

    The exit code is 1 when something is wrong.
    """
    health = summary(examine(session))
    session.output.table(
        [fields(check) for check in health.checks], "name", "ok", "detail", "advice", empty=""
    )
    if not health.ok:
        raise typer.Exit(UNWELL)


def examine(session: Session | TaskSession) -> Iterator[HealthCheck]:
    """Each check needs those before it, so the first that fails may be the last."""
    yield _package()
    if isinstance(session, TaskSession):
        # MySQL and MariaDB hold tasks, and nothing else of ours.
        yield from _task_tables(session.dsn)
        return
    try:
        connection = session.connection if session.is_embedded else session.connect()
    except PenstockError as problem:
        yield _failed("connection", problem)
        return
    yield _connection(connection)
    yield _server(connection)
    yield clock(*_times(connection))
    asked = "select to_regclass('mq_tasks') is not null"
    has_tasks = connection.execute(asked).fetchone() == (True,)
    yield from _engine(connection, needed=not has_tasks)
    if has_tasks:
        yield from _task_tables(session.dsn)


def _engine(connection: AnyConnection, *, needed: bool) -> Iterator[HealthCheck]:
    """Tasks need no engine, messages do."""
    try:
        schema.check(connection)
    except NotInstalled as problem:
        missing = _failed("engine", problem)
        detail = "not installed, and tasks don't need it; messages do: run penstock init"
        yield missing if needed else HealthCheck("engine", ok=True, detail=detail, advice=None)
        return
    except PenstockError as problem:
        yield _failed("engine", problem)
        return
    yield build(schema.installed_fingerprint(connection), schema.fingerprint())
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


def _times(connection: AnyConnection) -> tuple[datetime, datetime, datetime]:
    """The server's time, and ours before and after it was asked."""
    before = datetime.now(UTC)
    row = connection.execute("select clock_timestamp()").fetchone()
    assert row is not None
    return row[0], before, datetime.now(UTC)


def clock(server: datetime, before: datetime, after: datetime) -> HealthCheck:
    """Queues go by the server's clock alone; one that is off makes logs and ages hard to read."""
    off = max(before - server, server - after, timedelta())
    ok = off <= CLOCK_TOLERANCE
    return HealthCheck(
        "server clock",
        ok=ok,
        detail=f"within {CLOCK_TOLERANCE} of this machine's" if ok else f"{off} off this machine's",
        advice=None if ok else "let NTP keep both: delays and leases follow the server's clock",
    )


def build(installed: str | None, ours: str) -> HealthCheck:
    """Two builds of one version work side by side, until one calls what the other lacks."""
    ok = installed in (None, ours)
    seen = {
        None: "installed with psql, so not compared with this package's scripts",
        ours: "installed from this package's scripts",
    }.get(installed, "installed from other scripts than this package's")
    return HealthCheck(
        "engine",
        ok=ok,
        detail=f"version {schema.EXPECTED_VERSION}, {seen}",
        advice=None if ok else "run penstock init with the newer package, then upgrade the others",
    )


def _roles(connection: AnyConnection) -> HealthCheck:
    found = connection.execute(
        "select rolname::text, pg_has_role(oid, 'usage') from pg_roles where rolname = any(%s)",
        (list(ROLES),),
    ).fetchall()
    missing = sorted(set(ROLES) - {name for name, _ in found})
    if missing:
        return HealthCheck(
            "your roles",
            ok=False,
            detail=f"missing: {', '.join(missing)}",
            advice="run penstock init",
        )
    held = sorted(name for name, mine in found if mine)
    return HealthCheck(
        "your roles",
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


def _task_tables(dsn: str) -> Iterator[HealthCheck]:
    try:
        found = asyncio.run(_examine_tasks(dsn))
    except PenstockError as problem:
        yield _failed("tasks", problem)
        return
    for each in found:
        yield HealthCheck(f"tasks: {each.name}", each.ok, each.detail, each.advice)


async def _examine_tasks(dsn: str) -> list[Finding]:
    store = open_store(dsn, StoreOptions(pool_size=1, retry_for=timedelta(seconds=5)))
    try:
        return await store.check()
    finally:
        await store.close()


def _session(dsn: str | None, *, json: bool) -> Session | TaskSession:
    return TaskSession(dsn, json=json) if is_mysql(dsn) else Session(dsn, json=json)


def register(app: typer.Typer) -> None:
    example = "penstock doctor --dsn postgresql://localhost/shop"
    command(app, example=example, session=_session)(doctor)
