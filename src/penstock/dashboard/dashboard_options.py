"""The options of the dashboard: one value, checked before anything is opened."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from datetime import timedelta
from urllib.parse import urlsplit

from penstock.addresses import is_loopback
from penstock.errors import InvalidSetting

DEFAULT_PORT = 8710
# A user may have to type a token; 24 random bytes make guessing hopeless.
_TOKEN_BYTES = 24
_SHORTEST_TOKEN = 16


def new_token() -> str:
    return secrets.token_urlsafe(_TOKEN_BYTES)


@dataclass(frozen=True, slots=True)
class Options:
    """Defaults are those of a developer's machine: loopback, a login, two fresh tokens."""

    host: str = "127.0.0.1"
    port: int = DEFAULT_PORT
    auth: bool = True
    """Without it, every client that reaches the port is an operator: loopback only."""
    operator_token: str = field(default_factory=new_token, repr=False)
    """May do everything that the pages offer."""
    viewer_token: str = field(default_factory=new_token, repr=False)
    """May look."""
    public_url: str | None = None
    """How browsers reach it through a proxy, such as https://queues.example.com."""
    task_dsns: tuple[str, ...] = field(default=(), repr=False)
    """Databases with task tables: PostgreSQL, MySQL or MariaDB."""
    session_life: timedelta = timedelta(hours=12)
    grace: timedelta = timedelta(seconds=5)

    def __post_init__(self) -> None:
        if not self.auth and not is_loopback(self.host):
            raise InvalidSetting(
                f"--no-auth would let every client that reaches {self.host} purge every queue: "
                "it works on loopback only (127.0.0.1, ::1, localhost)"
            )
        if not self.auth and self.public_url is not None:
            raise InvalidSetting("--no-auth and --public-url exclude each other: keep the login")
        for token in (self.operator_token, self.viewer_token):
            if len(token) < _SHORTEST_TOKEN:
                raise InvalidSetting(f"a token needs {_SHORTEST_TOKEN} characters or more")
        if self.operator_token == self.viewer_token:
            raise InvalidSetting("the operator's and the viewer's token must differ")
        if self.public_url is not None and (
            urlsplit(self.public_url).scheme not in ("http", "https")
            or not urlsplit(self.public_url).netloc
            or urlsplit(self.public_url).path not in ("", "/")
        ):
            raise InvalidSetting("the public URL must look like https://queues.example.com")

    @property
    def is_secure(self) -> bool:
        """Whether browsers see HTTPS, so that cookies may be kept to it."""
        return self.public_url is not None and urlsplit(self.public_url).scheme == "https"

    def knows_host(self, host: str) -> bool:
        """Whether a Host header names this server: another name may be a rebound one."""
        if self.public_url is not None:
            return host == urlsplit(self.public_url).netloc
        if not is_loopback(self.host):
            return True
        try:
            name = urlsplit(f"//{host}").hostname or ""
        except ValueError:
            return False
        return name == self.host or is_loopback(name)
