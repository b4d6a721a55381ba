"""The segments of log and history, what holds them, and who pins the horizon."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.client.calls import looks
from penstock.dashboard.desk import desk
from penstock.dashboard.desk import page as whole

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response


async def page(request: Request) -> Response:
    at = desk(request)
    segments = await at.database.look(looks.segment_overview())
    return whole(
        request,
        "storage.html",
        now=await at.database.look(looks.clock()),
        segments=segments,
        largest=max((each.bytes for each in segments), default=1) or 1,
        total=sum(each.bytes for each in segments),
        holders=await at.database.look(looks.horizon_holders()),
    )
