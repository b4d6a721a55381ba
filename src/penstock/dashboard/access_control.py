"""Access to every page: which requests are refused, and what the browser is forbidden.

One place for all of it, so that no page can forget a check: the host's name, the login, and for
every change the origin, the form's token and the role.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlencode

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse

from penstock.dashboard.web_sessions import COOKIE

if TYPE_CHECKING:
    from starlette.responses import Response
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from penstock.dashboard.dashboard_options import Options
    from penstock.dashboard.web_sessions import WebSession, WebSessions

_log = logging.getLogger("penstock.dashboard")

LOGIN = "/login"
_OPEN = ("/login", "/static/", "/healthz")
LARGEST_FORM = 64 * 1024
_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    # Not no-referrer: browsers would then send forms with the origin "null".
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}


class AccessControl:
    """ASGI middleware; puts the session and the form's fields into the request's state."""

    def __init__(self, app: ASGIApp, *, options: Options, sessions: WebSessions) -> None:
        self._app = app
        self._options = options
        self._sessions = sessions

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                _protect(MutableHeaders(scope=message), scope["path"])
            await send(message)

        refusal = await self._refusal(scope, receive)
        await (refusal or self._app)(scope, receive, guarded)

    async def _refusal(self, scope: Scope, receive: Receive) -> Response | None:
        """What to answer instead of the page, or None to let the request through."""
        request = Request(scope, receive)
        if not self._options.knows_host(request.headers.get("host", "")):
            return _no("This server is not known by that name. Use the address it was started at.")
        session = self._session(request)
        scope.setdefault("state", {})["session"] = session
        scope["state"]["form"] = {}
        if request.method in ("GET", "HEAD"):
            return None if session is not None or _is_open(request) else _to_login(request)
        if request.method != "POST":
            return PlainTextResponse("Only GET and POST.", 405)
        return await self._form_refusal(request, session)

    async def _form_refusal(self, request: Request, session: WebSession | None) -> Response | None:
        if not self._is_own(request.headers):
            _log.warning("a form from a foreign origin was refused")
            return _no("This form comes from another site, so nothing was done.")
        form = await _form(request)
        if form is None:
            return PlainTextResponse("The form is too large or malformed.", 413)
        request.scope["state"]["form"] = form
        if request.url.path == LOGIN:
            return None
        if session is None:
            return _no("Log in first; nothing was done.", 401)
        if not self._sessions.is_form_of(session, form.get("form_token", [""])[0]):
            return _no("This form is not from this session, so nothing was done. Reload the page.")
        return None

    def _session(self, request: Request) -> WebSession | None:
        if not self._options.auth:
            return self._sessions.without_login()
        return self._sessions.opened(request.cookies.get(COOKIE, ""))

    def _is_own(self, headers: Headers) -> bool:
        """Browsers send the origin of a form; a request without one is refused."""
        host = headers.get("host", "")
        own = {f"http://{host}", f"https://{host}"}
        if self._options.public_url is not None:
            own = {self._options.public_url.rstrip("/")}
        return headers.get("origin") in own


def _protect(headers: MutableHeaders, path: str) -> None:
    for name, value in _HEADERS.items():
        headers[name] = value
    if not path.startswith("/static/"):
        headers["Cache-Control"] = "no-store"


def _is_open(request: Request) -> bool:
    path = request.url.path
    return any(path == each or (each.endswith("/") and path.startswith(each)) for each in _OPEN)


def _to_login(request: Request) -> Response:
    if request.url.path == "/events":
        return _no("Log in first.", 401)
    wanted = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    query = f"?{urlencode({'next': wanted})}" if wanted != "/" else ""
    return RedirectResponse(f"{LOGIN}{query}", 303)


def _no(why: str, status: int = 403) -> Response:
    return PlainTextResponse(why, status)


async def _form(request: Request) -> dict[str, list[str]] | None:
    """The fields of a form; read here with a limit, since nothing of ours uploads files."""
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > LARGEST_FORM:
            return None
    try:
        return parse_qs(body.decode(), keep_blank_values=True, max_num_fields=2000)
    except (UnicodeDecodeError, ValueError):
        return None
