"""How a request names where its reply should go."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.errors import InvalidArgument

if TYPE_CHECKING:
    from penstock.models import Json

REPLIES = "penstock.replies"
"""The topic of all replies; a requester's queue lets through only those with its own name."""
REPLY_TO = "reply-to"


def request_headers(headers: dict[str, Json] | None, queue: str) -> dict[str, Json]:
    return {**(headers or {}), REPLY_TO: queue}


def reply_filter(queue: str) -> dict[str, Json]:
    """The filter of the queue that awaits replies."""
    return {"headers": {REPLY_TO: queue}}


def reply_headers(headers: dict[str, Json], message_id: int) -> dict[str, Json]:
    """The headers of a reply to a message with these; an error if it asked for none."""
    if REPLY_TO not in headers:
        raise InvalidArgument(
            f"message {message_id} asks for no reply: it was not published with request()"
        )
    return {REPLY_TO: headers[REPLY_TO]}
