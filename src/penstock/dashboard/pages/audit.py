"""What people did, newest first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.client.calls import audit
from penstock.dashboard.desk import asked, desk
from penstock.dashboard.desk import page as whole

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

PAGE_SIZE = 100


async def page(request: Request) -> Response:
    before = asked(request, "before")
    behind = int(before) if before.isascii() and before.isdigit() and len(before) < 19 else None  # noqa: PLR2004
    deeds = await desk(request).database.look(audit.list_actions(behind, PAGE_SIZE))
    more = deeds[-1].id if len(deeds) == PAGE_SIZE else None
    return whole(request, "audit.html", deeds=deeds, more=more)
