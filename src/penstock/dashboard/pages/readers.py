"""Named readers of the log, Spark streams among them, and how far they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.client.calls import looks
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
    return whole(
        request,
        "readers.html",
        live="readers",
        inner=regions(at, sample),
        now=sample.at,
        streams=await at.database.look(looks.list_streams()),
    )


def regions(at: Desk, sample: Sample) -> str:
    return at.html("_readers.html", now=sample.at, readers=sample.readers)
