"""One message in one queue: what it holds, and what became of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.client.calls import looks
from penstock.dashboard.desk import asked, desk
from penstock.dashboard.desk import page as whole
from penstock.dashboard.pages.actions import deed_done

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

MOST_CHARACTERS = 64 * 1024


async def page(request: Request) -> Response:
    at, queue, wanted = desk(request), asked(request, "queue"), asked(request, "id")
    if not (wanted.isascii() and wanted.isdigit() and len(wanted) < 19):  # noqa: PLR2004 - bigint
        return whole(
            request, "error.html", code=400, message="A message's id is a whole number.", hint=""
        )
    call = looks.inspect_message(queue, int(wanted), MOST_CHARACTERS)
    found = await at.database.look(call, as_monitor=False)
    if found is None:
        return whole(
            request,
            "error.html",
            code=404,
            message=f"Message {wanted} is not in the log any more, or never was in this topic.",
            hint="Messages go when every queue is done with them.",
        )
    return whole(
        request,
        "message.html",
        queue=queue,
        id=int(wanted),
        message=found,
        is_cut=len(found.payload) >= MOST_CHARACTERS,
        now=await at.database.look(looks.clock()),
        did=await deed_done(request),
    )
