"""Access to every page: which requests are refused, and what the browser is forbidden.

One place for all of it, so that no page can forget a check: the host's name, the login, and for
every change the origin, the form's token and the role.  Logins are here as well: tokens become
signed cookies, every form proves its session, and failures are limited.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import secrets
import time
from collections import deque
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlencode

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse

if TYPE_CHECKING:
    from starlette.responses import Response
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from penstock.dashboard.dashboard_options import Options

_log = logging.getLogger("penstock.dashboard")

LOGIN = "/login"
COOKIE = "penstock_session"
_COOKIE_PARTS = 4
_MINUTE = 60.0
_FAILURES_PER_ADDRESS = 5
_FAILURES_IN_ALL = 50
_MOST_ADDRESSES = 1000
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


class Role(StrEnum):
    VIEWER = "viewer"
    OPERATOR = "operator"


@dataclass(frozen=True, slots=True)
class WebSession:
    """A login, valid until `ends_at` (seconds since 1970)."""

    role: Role
    ends_at: int
    nonce: str

    @property
    def may_act(self) -> bool:
        return self.role is Role.OPERATOR


class WebSessions:
    """Signs sessions and reads them back.  Nothing is stored: a new token ends them all."""

    def __init__(self, options: Options) -> None:
        self._options = options
        both = f"{options.operator_token}\0{options.viewer_token}"
        # Made of the tokens, so that with fixed tokens a login survives a restart.
        self._key = hashlib.sha256(f"penstock dashboard\0{both}".encode()).digest()

    def log_in(self, token: str) -> WebSession | None:
        """The session that a token opens; always compares both, so time reveals nothing."""
        given = token.strip().encode()
        is_operator = hmac.compare_digest(given, self._options.operator_token.encode())
        is_viewer = hmac.compare_digest(given, self._options.viewer_token.encode())
        if not is_operator and not is_viewer:
            return None
        return self._new(Role.OPERATOR if is_operator else Role.VIEWER)

    def without_login(self) -> WebSession:
        """The session of every user where no login is wanted; one nonce, so forms stay valid."""
        return WebSession(Role.OPERATOR, 0, "local")

    def _new(self, role: Role) -> WebSession:
        life = round(self._options.session_life.total_seconds())
        return WebSession(role, int(time.time()) + life, secrets.token_urlsafe(16))

    def sealed(self, session: WebSession) -> str:
        words = f"{session.role}.{session.ends_at}.{session.nonce}"
        return f"{words}.{self._sign('session', words)}"

    def opened(self, cookie: str) -> WebSession | None:
        """The session of a cookie, if we have signed it and it has not ended."""
        parts = cookie.split(".")
        if len(parts) != _COOKIE_PARTS:
            return None
        words, signature = ".".join(parts[:-1]), parts[-1]
        if not hmac.compare_digest(signature.encode(), self._sign("session", words).encode()):
            return None
        found = WebSession(Role(parts[0]), int(parts[1]), parts[2])
        return found if found.ends_at > time.time() else None

    def form_token(self, session: WebSession) -> str:
        """What a form must send back to prove that this session was shown it."""
        return self._sign("form", session.nonce)

    def is_form_of(self, session: WebSession, token: str) -> bool:
        return hmac.compare_digest(token.encode(), self.form_token(session).encode())

    def _sign(self, purpose: str, words: str) -> str:
        return hmac.new(self._key, f"{purpose}\0{words}".encode(), hashlib.sha256).hexdigest()


class LoginAttempts:
    """Failed logins of the last minute: a few are allowed for each address, and some for all."""

    def __init__(self) -> None:
        self._failed: dict[str, deque[float]] = {}
        self._all: deque[float] = deque(maxlen=_FAILURES_IN_ALL)

    def is_allowed(self, address: str) -> bool:
        now = time.monotonic()
        return (
            _recent(self._failed.get(address, deque()), now) < _FAILURES_PER_ADDRESS
            and _recent(self._all, now) < _FAILURES_IN_ALL
        )

    def failed(self, address: str) -> None:
        if len(self._failed) >= _MOST_ADDRESSES:
            self._forget()
        now = time.monotonic()
        self._failed.setdefault(address, deque(maxlen=_FAILURES_PER_ADDRESS)).append(now)
        self._all.append(now)

    def _forget(self) -> None:
        now = time.monotonic()
        self._failed = {who: when for who, when in self._failed.items() if _recent(when, now)}


def _recent(moments: deque[float], now: float) -> int:
    return sum(now - moment < _MINUTE for moment in moments)


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
