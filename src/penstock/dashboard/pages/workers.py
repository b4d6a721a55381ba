"""Who consumes, and what they have in hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.dashboard.desk import desk
from penstock.dashboard.desk import page as whole

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from penstock.dashboard.desk import Desk
    from penstock.dashboard.samples import Sample


async def page(request: Request) -> Response:
    at = desk(request)
    sample = await at.watch.current()
    return whole(request, "live.html", title="Workers", live="workers", inner=regions(at, sample))


def regions(at: Desk, sample: Sample) -> str:
    consumers = at.watch.samples.consumers()
    idle = sorted(set(sample.queues) - {each.queue for each in consumers})
    return at.html("_workers.html", now=sample.at, consumers=consumers, idle=idle)
