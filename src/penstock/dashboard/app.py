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

from penstock.dashboard import desk as desks
from penstock.dashboard.database import Database
from penstock.dashboard.desk import Desk
from penstock.dashboard.gate import Gate
from penstock.dashboard.pages import (
    actions,
    audit,
    events,
    login,
    message,
    overview,
    queue,
    readers,
    schedules,
    storage,
    task_actions,
    tasks,
    workers,
)
from penstock.dashboard.watch import EVERY
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

    from penstock.dashboard.options import Options

_STATUS: tuple[tuple[type[PenstockError], int], ...] = (
    (UnknownName, 404),
    (InvalidArgument, 400),
    (PermissionDenied, 403),
    (DatabaseUnavailable, 503),
)


def build(dsn: str, options: Options, *, every: float = EVERY) -> Starlette:
    """The dashboard of one database; it looks `every` so many seconds while a browser watches."""
    made = Desk.made(options, Database(dsn), every)

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        yield
        await made.watch.stop()
        await made.database.close()

    app = Starlette(
        routes=[
            Route("/", overview.page),
            Route("/queue", queue.page),
            Route("/message", message.page),
            Route("/workers", workers.page),
            Route("/readers", readers.page),
            Route("/schedules", schedules.page),
            Route("/tasks", tasks.page),
            Route("/task", tasks.one),
            Route("/task/confirm", task_actions.confirm),
            Route("/task/act", task_actions.act, methods=["POST"]),
            Route("/storage", storage.page),
            Route("/audit", audit.page),
            Route("/events", events.stream),
            Route("/confirm", actions.confirm),
            Route("/act", actions.act, methods=["POST"]),
            Route("/login", login.page, methods=["GET", "POST"]),
            Route("/logout", login.leave, methods=["POST"]),
            Route("/healthz", _healthy),
            Mount("/static", StaticFiles(directory=Path(__file__).parent / "static")),
        ],
        middleware=[Middleware(Gate, options=options, sessions=made.sessions)],
        exception_handlers={PenstockError: _failed, 404: _not_found},
        lifespan=lifespan,
    )
    app.state.desk = made
    return app


async def _healthy(_request: Request) -> Response:
    return PlainTextResponse("ok")


async def _failed(request: Request, problem: Exception) -> Response:
    """An error of ours as a page that says what to do."""
    status = next((code for kind, code in _STATUS if isinstance(problem, kind)), 500)
    message, _, hint = str(problem).partition("\n")
    return desks.page(request, "error.html", code=status, message=message, hint=hint)


async def _not_found(request: Request, _problem: Exception) -> Response:
    if request.state.session is None:
        return PlainTextResponse("Not found.", 404)
    return desks.page(request, "error.html", code=404, message="There is no such page.", hint="")
