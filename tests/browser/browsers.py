"""A real Chromium, Debian's, driven by Playwright; and the dashboard it visits, in a thread."""

from __future__ import annotations

import asyncio
import shutil
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import uvicorn

from penstock.dashboard.app import build
from penstock.dashboard.dashboard_options import Options
from penstock.settings import Settings
from tests.fixtures.patience import eventually_sync

if TYPE_CHECKING:
    from collections.abc import Iterator

OPERATOR = "operator-token-of-the-tests"
VIEWER = "viewer-token-of-the-tests"


def program() -> str | None:
    return shutil.which("chromium") or shutil.which("chromium-browser")


@contextmanager
def serving(dsn: str, **options: Any) -> Iterator[str]:
    """The dashboard on a free port; gives its address."""
    told = Options(operator_token=OPERATOR, viewer_token=VIEWER, **options)
    app = build(Settings(dsn=dsn), told, every=0.5)
    server = uvicorn.Server(
        uvicorn.Config(app, port=0, log_level="error", timeout_graceful_shutdown=1)
    )
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    eventually_sync(lambda: server.started)
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        yield f"http://localhost:{port}"
    finally:
        loop = server.servers[0].get_loop()
        # Open streams would hold the server back.
        asyncio.run_coroutine_threadsafe(app.state.dashboard.poller.stop(), loop).result(10)
        server.should_exit = True
        thread.join(10)
