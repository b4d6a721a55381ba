"""Where a MySQL server is: `mysql://user:password@host:3306/database?unix_socket=/path&ssl_ca=…`."""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from penstock.errors import InvalidSetting

SCHEMES = ("mysql", "mariadb")
_OPTIONS = {"unix_socket", "ssl", "ssl_ca"}
_PORT = 3306


@dataclass(frozen=True, slots=True)
class Address:
    """The parts of a DSN."""

    host: str
    port: int
    user: str | None
    database: str
    password: str = field(default="", repr=False)
    unix_socket: str | None = None
    ssl_ca: str | None = None
    encrypted: bool = False

    @classmethod
    def parse(cls, dsn: str) -> Address:
        # The DSN itself is never repeated: it may hold a password.
        try:
            parts = urlsplit(dsn)
            dsn.encode()
        except ValueError:
            raise InvalidSetting("the DSN can't be read: mysql://user@host/database") from None
        if parts.scheme.partition("+")[0] not in SCHEMES:
            raise InvalidSetting("a MySQL DSN begins with mysql:// or mariadb://")
        options = {name: values[-1] for name, values in parse_qs(parts.query).items()}
        unknown = options.keys() - _OPTIONS
        if unknown:
            raise InvalidSetting(
                f"the DSN has unknown options {', '.join(sorted(unknown))}: "
                f"known are {', '.join(sorted(_OPTIONS))}"
            )
        database = unquote(parts.path.lstrip("/"))
        if not database:
            raise InvalidSetting("the DSN names no database: mysql://user@host/database")
        return cls(
            host=parts.hostname or "localhost",
            port=_port(parts),
            user=unquote(parts.username) if parts.username else None,
            password=unquote(parts.password or ""),
            database=database,
            unix_socket=options.get("unix_socket"),
            ssl_ca=options.get("ssl_ca"),
            encrypted=options.get("ssl", "").lower() in ("1", "true", "yes", "on"),
        )

    def arguments(self) -> dict[str, Any]:
        """What the driver's connect wants."""
        return {
            "host": self.host,
            "port": self.port,
            "user": self.user,
            "password": self.password,
            "db": self.database,
            "unix_socket": self.unix_socket,
            "ssl": self._context(),
        }

    def _context(self) -> ssl.SSLContext | None:
        if self.ssl_ca is None and not self.encrypted:
            return None
        return ssl.create_default_context(cafile=self.ssl_ca)


def _port(parts: Any) -> int:
    try:
        return int(parts.port or _PORT)
    except ValueError:
        raise InvalidSetting("the DSN's port is not a number from 1 to 65535") from None
