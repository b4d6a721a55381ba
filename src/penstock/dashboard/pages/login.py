"""Logging in with a token, and out."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from starlette.responses import HTMLResponse, RedirectResponse

from penstock.dashboard.access_control import COOKIE, LOGIN
from penstock.dashboard.page_context import dashboard_of

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from penstock.dashboard.page_context import Dashboard

_log = logging.getLogger("penstock.dashboard")


async def page(request: Request) -> Response:
    dashboard = dashboard_of(request)
    wanted = request.query_params.get("next", "/")
    if request.method == "GET":
        if request.state.session is not None:
            return RedirectResponse("/", 303)
        return _form(dashboard, wanted)
    address = request.client.host if request.client else ""
    if not dashboard.attempts.is_allowed(address):
        _log.warning("too many logins failed from %s", address)
        return _form(dashboard, wanted, "Too many attempts. Wait a minute, then try again.", 429)
    form = request.state.form
    found = dashboard.sessions.log_in(form.get("token", [""])[0])
    if found is None:
        dashboard.attempts.failed(address)
        return _form(dashboard, wanted, "That is not one of the tokens printed at the start.", 401)
    answer = RedirectResponse(_inside(form.get("next", ["/"])[0]), 303)
    answer.set_cookie(
        COOKIE,
        dashboard.sessions.sealed(found),
        max_age=round(dashboard.options.session_life.total_seconds()),
        httponly=True,
        samesite="strict",
        secure=dashboard.options.is_secure,
    )
    return answer


async def leave(_request: Request) -> Response:
    answer = RedirectResponse(LOGIN, 303)
    answer.delete_cookie(COOKIE, httponly=True, samesite="strict")
    return answer


def _form(dashboard: Dashboard, wanted: str, problem: str = "", status: int = 200) -> Response:
    html = dashboard.html("login.html", problem=problem, next=_inside(wanted))
    return HTMLResponse(html, status)


def _inside(wanted: str) -> str:
    """A path of this server: a link with a foreign address must not lead there after the login."""
    is_path = wanted.startswith("/") and not wanted.startswith(("//", "/\\"))
    return wanted if is_path and wanted.isprintable() and "\\" not in wanted else "/"
