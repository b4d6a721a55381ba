"""The application: its routes, and what becomes of an error."""

from __future__ import annotations

from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.responses import PlainTextResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from penstock.dashboard.access_control import AccessControl
from penstock.dashboard.dashboard_database import DashboardDatabase
from penstock.dashboard.page_context import Dashboard, render
from penstock.dashboard.pages import actions, events, login, overview, queue, tables, tasks
from penstock.dashboard.poller import EVERY
from penstock.errors import (
    DatabaseUnavailable,
    InvalidArgument,
    PenstockError,
    PermissionDenied,
    UnknownName,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from starlette.requests import Request
    from starlette.responses import Response

    from penstock.dashboard.dashboard_options import Options
    from penstock.settings import Settings

_STATUS: tuple[tuple[type[PenstockError], int], ...] = (
    (UnknownName, 404),
    (InvalidArgument, 400),
    (PermissionDenied, 403),
    (DatabaseUnavailable, 503),
)


def build(settings: Settings, options: Options, *, every: float = EVERY) -> Starlette:
    """The dashboard of one database; `every`: seconds between two polls while a browser watches."""
    made = Dashboard.made(options, DashboardDatabase(settings), every)

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        yield
        await made.poller.stop()
        await made.database.close()

    app = Starlette(
        routes=[
            Route("/", overview.page),
            Route("/queue", queue.page),
            Route("/message", queue.message),
            Route("/workers", tables.workers),
            Route("/readers", tables.readers),
            Route("/schedules", tables.schedules),
            Route("/tasks", tasks.page),
            Route("/task", tasks.one),
            Route("/task/confirm", tasks.confirm),
            Route("/task/act", tasks.act, methods=["POST"]),
            Route("/storage", tables.storage),
            Route("/audit", tables.audit_log),
            Route("/events", events.stream),
            Route("/confirm", actions.confirm),
            Route("/act", actions.act, methods=["POST"]),
            Route("/login", login.page, methods=["GET", "POST"]),
            Route("/logout", login.leave, methods=["POST"]),
            Route("/healthz", _healthy),
            Mount("/static", StaticFiles(directory=Path(__file__).parent / "static")),
        ],
        middleware=[Middleware(AccessControl, options=options, sessions=made.sessions)],
        exception_handlers={PenstockError: _failed, 404: _not_found},
        lifespan=lifespan,
    )
    app.state.dashboard = made
    return app


async def _healthy(_request: Request) -> Response:
    return PlainTextResponse("ok")


async def _failed(request: Request, problem: Exception) -> Response:
    """An error of ours as a page that says what to do."""
    status = next((code for kind, code in _STATUS if isinstance(problem, kind)), 500)
    message, _, hint = str(problem).partition("\n")
    return render(request, "error.html", code=status, message=message, hint=hint)


async def _not_found(request: Request, _problem: Exception) -> Response:
    if request.state.session is None:
        return PlainTextResponse("Not found.", 404)
    return render(request, "error.html", code=404, message="There is no such page.", hint="")
