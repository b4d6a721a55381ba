"""What is shown to whoever looks after the server: /health and /metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from penstock.observe.health import health
from penstock.sqs.answers import Response

if TYPE_CHECKING:
    from penstock.sqs.assembly import Door

HEALTH = "/health"
METRICS = "/metrics"
PATHS = frozenset({HEALTH, METRICS})


async def show(door: Door, path: str) -> Response:
    """One of the pages."""
    return await _health(door) if path == HEALTH else _metrics(door)


async def _health(door: Door) -> Response:
    found = await health(door.client)
    body = msgspec.json.encode(
        {
            "status": "ok" if found.serving else "failing",
            "checks": {check.name: check.ok for check in found.checks},
        }
    )
    return _plain(200 if found.serving else 503, b"application/json", body)


def _metrics(door: Door) -> Response:
    text = door.watching.text(door.polls.count)
    return _plain(200, b"text/plain; version=0.0.4", text.encode())


def _plain(status: int, kind: bytes, body: bytes) -> Response:
    headers = [(b"content-type", kind), (b"content-length", b"%d" % len(body))]
    return Response(status, headers, body)
