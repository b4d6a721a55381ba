"""Logins: tokens become signed cookies, every form proves its session, and failures are limited."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from collections import deque
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.dashboard.dashboard_options import Options

COOKIE = "penstock_session"
_PARTS = 4


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
        if len(parts) != _PARTS:
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


_MINUTE = 60.0
_PER_ADDRESS = 5
_IN_ALL = 50
_MOST_ADDRESSES = 1000


class LoginAttempts:
    """Failed logins of the last minute: a few are allowed for each address, and some for all."""

    def __init__(self) -> None:
        self._failed: dict[str, deque[float]] = {}
        self._all: deque[float] = deque(maxlen=_IN_ALL)

    def is_allowed(self, address: str) -> bool:
        now = time.monotonic()
        return (
            _recent(self._failed.get(address, deque()), now) < _PER_ADDRESS
            and _recent(self._all, now) < _IN_ALL
        )

    def failed(self, address: str) -> None:
        if len(self._failed) >= _MOST_ADDRESSES:
            self._forget()
        now = time.monotonic()
        self._failed.setdefault(address, deque(maxlen=_PER_ADDRESS)).append(now)
        self._all.append(now)

    def _forget(self) -> None:
        now = time.monotonic()
        self._failed = {who: when for who, when in self._failed.items() if _recent(when, now)}


def _recent(moments: deque[float], now: float) -> int:
    return sum(now - moment < _MINUTE for moment in moments)
