"""What deeds of every kind share: whose they are, how they are refused, and what is told after."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.client.calls import audit
from penstock.dashboard.desk import asked, desk, page, session

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from penstock.client.facts import Deed


@dataclass(frozen=True, slots=True)
class Told:
    """What the page after a deed says."""

    deed: Deed
    words: str
    note: str
    """How many it was done to."""
    undo: str = ""
    """What the button says that takes it back; empty when nothing does."""
    undo_link: str = ""


def actor(request: Request) -> str:
    address = request.client.host if request.client else "unknown"
    return f"{session(request).role} at {address}"


async def just_done(request: Request) -> Deed | None:
    """The deed that the address names, told from the audit: an address can say anything."""
    number = asked(request, "did")
    if not (number.isascii() and number.isdigit() and len(number) < 19):  # noqa: PLR2004 - bigint
        return None
    found = await desk(request).database.look(audit.list_actions(int(number) + 1, 1))
    return found[0] if found and found[0].id == int(number) else None


def error(request: Request, status: int, message: str, hint: str = "") -> Response:
    return page(request, "error.html", code=status, message=message, hint=hint)


def unknown(request: Request) -> Response:
    return error(request, 400, "There is no such action.")


def forbidden(request: Request) -> Response:
    hint = "Log in with the operator's token for that."
    return error(request, 403, "You may look, but not act.", hint)


def unconfirmed(request: Request) -> Response:
    return error(request, 400, "It was not confirmed, so nothing was done.")
