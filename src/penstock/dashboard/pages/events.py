"""Live updates: a stream of server-sent events with the changed parts of one page.

Each new sample is rendered once per distinct page, however many browsers show it.
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

from starlette.responses import PlainTextResponse, StreamingResponse

from penstock.dashboard.page_context import dashboard_of, parameter, session
from penstock.dashboard.pages import overview, queue, tables

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from starlette.requests import Request
    from starlette.responses import Response

    from penstock.dashboard.page_context import Dashboard
    from penstock.dashboard.samples import Sample

_MOST_STREAMS = 200


class _Rendered:
    """The newest HTML of each page that a browser watches."""

    def __init__(self) -> None:
        self._number = -1
        self._html: dict[tuple[str, str], str] = {}

    def get(self, dashboard: Dashboard, sample: Sample, view: str, name: str) -> str:
        if sample.number != self._number:
            self._number, self._html = sample.number, {}
        if (view, name) not in self._html:
            self._html[view, name] = _render(dashboard, sample, view, name)
        return self._html[view, name]


def _render(dashboard: Dashboard, sample: Sample, view: str, name: str) -> str:
    match view:
        case "overview":
            return overview.regions(dashboard, sample)
        case "workers":
            return tables.worker_regions(dashboard, sample)
        case "readers":
            return tables.reader_regions(dashboard, sample)
        case _:
            return queue.regions(dashboard, sample, name)


async def stream(request: Request) -> Response:
    dashboard = dashboard_of(request)
    view, name = parameter(request, "page"), parameter(request, "name")
    if view not in ("overview", "workers", "readers", "queue"):
        return PlainTextResponse("No page of that name is live.", 404)
    if dashboard.poller.watchers >= _MOST_STREAMS:
        return PlainTextResponse("Too many browsers watch; close one.", 503)
    if not hasattr(request.app.state, "rendered"):
        request.app.state.rendered = _Rendered()
    return StreamingResponse(
        _events(dashboard, request.app.state.rendered, view, name, session(request).ends_at),
        media_type="text/event-stream",
        # Proxies must not collect what is meant to arrive now.
        headers={"X-Accel-Buffering": "no"},
    )


async def _events(
    dashboard: Dashboard, rendered: _Rendered, view: str, name: str, ends_at: int
) -> AsyncIterator[str]:
    """Until the browser leaves, or its session ends (0: never)."""
    yield "retry: 3000\n\n"
    async with dashboard.poller.watching():
        async for sample in dashboard.poller.changes():
            if ends_at and time.time() > ends_at:
                return
            if sample is None:
                yield _event("trouble", dashboard.poller.problem or "")
            else:
                yield _event("regions", rendered.get(dashboard, sample, view, name))


def _event(kind: str, value: str) -> str:
    return f"event: {kind}\ndata: {json.dumps(value)}\n\n"
