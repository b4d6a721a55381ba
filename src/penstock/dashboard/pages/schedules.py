"""Schedules, known by the fires they left behind: they live in workers, not in the database."""

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
    return whole(
        request,
        "schedules.html",
        now=await at.database.look(looks.clock()),
        schedules=await at.database.look(looks.list_schedules()),
    )
