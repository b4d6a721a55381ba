"""penstock dashboard: the queues in a browser."""

from __future__ import annotations

import os
from types import ModuleType
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.arguments import Host, Port
from penstock.cli.session import Session, command
from penstock.errors import InvalidSetting

if TYPE_CHECKING:
    from penstock.dashboard.dashboard_options import Options

OPERATOR_TOKEN = "PENSTOCK_DASHBOARD_OPERATOR_TOKEN"  # noqa: S105 - a variable's name
VIEWER_TOKEN = "PENSTOCK_DASHBOARD_VIEWER_TOKEN"  # noqa: S105


def dashboard(
    session: Session,
    *,
    port: Port = 8710,
    host: Host = "127.0.0.1",
    no_auth: Annotated[
        bool, typer.Option("--no-auth", help="No login: every user may act. On loopback only.")
    ] = False,
    public_url: Annotated[
        str | None,
        typer.Option(metavar="URL", help="How browsers reach it through a proxy."),
    ] = None,
    tasks_dsn: Annotated[
        list[str] | None,
        typer.Option(
            metavar="URL", help="A database with tasks, PostgreSQL or MySQL; may be repeated."
        ),
    ] = None,
) -> None:
    """Show every queue in a browser, live, and let operators act.

    The tokens to log in with are printed at the start, unless
    PENSTOCK_DASHBOARD_OPERATOR_TOKEN and PENSTOCK_DASHBOARD_VIEWER_TOKEN set them.
    """
    server = _server()
    from penstock.dashboard.dashboard_options import Options, new_token
    from penstock.tasks import open_store

    for each in tasks_dsn or []:
        open_store(each)  # nothing is opened yet: a DSN of no known kind is said at once

    options = Options(
        host=host,
        port=port,
        auth=not no_auth,
        operator_token=os.environ.get(OPERATOR_TOKEN) or new_token(),
        viewer_token=os.environ.get(VIEWER_TOKEN) or new_token(),
        public_url=public_url,
        task_dsns=tuple(tasks_dsn or _own_tasks(session)),
    )
    server.log_to_stderr()
    server.serve(session.found_settings, options, lambda url: _announce(session, url, options))


def _server() -> ModuleType:
    try:
        from penstock.dashboard import server
    except ModuleNotFoundError as problem:
        raise InvalidSetting(
            f"the dashboard needs {problem.name}: pip install 'penstock-mq[dashboard]'"
        ) from None
    return server


def _own_tasks(session: Session) -> list[str]:
    """The queues' own database, when it has task tables; says as well what is wrong with it."""
    row = session.connection.execute("select to_regclass('mq_tasks') is not null").fetchone()
    return [session.dsn] if row == (True,) else []


def _announce(session: Session, url: str, options: Options) -> None:
    """Print the address, and the tokens that were made now and not set by the environment."""
    tokens = {
        "operator_token": None if os.environ.get(OPERATOR_TOKEN) else options.operator_token,
        "viewer_token": None if os.environ.get(VIEWER_TOKEN) else options.viewer_token,
    }
    fresh = {name: token for name, token in tokens.items() if token and options.auth}
    facts = {"url": url, "auth": options.auth, "pid": os.getpid(), **fresh}
    session.output.line(facts, f"dashboard at {url}")
    for name, token in fresh.items():
        session.output.note(f"  {name.replace('_', ' ')}: {token}")
    session.output.note("Ctrl-C ends it")


def register(app: typer.Typer) -> None:
    command(app, example="penstock dashboard --port 8710")(dashboard)
