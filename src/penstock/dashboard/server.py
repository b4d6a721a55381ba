"""The HTTP server of the dashboard; it runs until a signal stops it."""

from __future__ import annotations

import logging
import socket
from contextlib import suppress
from typing import TYPE_CHECKING

import uvicorn

from penstock.dashboard.app import build
from penstock.errors import InvalidSetting

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.applications import Starlette

    from penstock.dashboard.dashboard_options import Options
    from penstock.settings import Settings


class _Server(uvicorn.Server):
    """Ends the live streams first, or each would hold its connection until the grace is over."""

    def __init__(self, app: Starlette, configuration: uvicorn.Config) -> None:
        super().__init__(configuration)
        self._app = app

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await self._app.state.dashboard.poller.stop()
        await super().shutdown(sockets)


def serve(settings: Settings, options: Options, announce: Callable[[str], None]) -> None:
    """Serve until SIGTERM or SIGINT; `announce` is called with the address."""
    listening = bind(options)
    try:
        announce(address(options, listening))
        app = build(settings, options)
        server = _Server(app, _configuration(app, options))
        # uvicorn raises the signal again that it has obeyed.
        with suppress(KeyboardInterrupt):
            server.run([listening])
    finally:
        listening.close()


def bind(options: Options) -> socket.socket:
    """The listening socket, made first: a port in use is said at once."""
    try:
        family = socket.getaddrinfo(options.host, options.port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((options.host, options.port), family=family)
    except OSError as problem:
        raise InvalidSetting(
            f"can't listen on {options.host}:{options.port}: {problem.strerror or problem}"
        ) from None


def address(options: Options, listening: socket.socket) -> str:
    if options.public_url is not None:
        return options.public_url
    host = f"[{options.host}]" if ":" in options.host else options.host
    return f"http://{host}:{listening.getsockname()[1]}"


def _configuration(app: Starlette, options: Options) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        lifespan="on",
        ws="none",
        access_log=False,
        log_config=None,
        log_level="warning",
        server_header=False,
        # The login's limit counts by address, so a proxy's word is taken only when there is one.
        proxy_headers=options.public_url is not None,
        forwarded_allow_ips="127.0.0.1,::1",
        timeout_graceful_shutdown=round(options.grace.total_seconds()),
        limit_concurrency=500,
    )


def log_to_stderr() -> None:
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    logging.getLogger("penstock.dashboard").addHandler(handler)
    logging.getLogger("uvicorn").addHandler(handler)
