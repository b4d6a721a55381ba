"""A proxy before a test's task database, which can be silent or break connections."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.fixtures.proxy import Proxy

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.tasks.backends import Place


@dataclass(frozen=True, slots=True)
class _Target:
    server: Any
    name: str


@contextmanager
def proxied(place: Place) -> Iterator[Proxy]:
    """Stores of the place go through the proxy from now on."""
    direct = place.dsn
    server = place.backend.server  # type: ignore[attr-defined]
    with Proxy(_Target(server, place.name)) as proxy:
        if place.backend.name == "mariadb":
            place.dsn = f"mysql://root@127.0.0.1:{proxy.port}/{place.name}"
        else:
            place.dsn = proxy.dsn
        try:
            yield proxy
        finally:
            place.dsn = direct
