"""Whether a caller may do what it asks for: what the door knows of the queue, put to `access`."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from penstock.sqs import access
from penstock.sqs.errors import Fault
from penstock.sqs.names import locate_arn

if TYPE_CHECKING:
    from penstock.sqs.facts import FactCache, QueueFacts
    from penstock.sqs.identity import Identity
    from penstock.sqs.keys import AccessKey
    from penstock.sqs.names import QueueId
    from penstock.sqs.request import Request
    from penstock.sqs.router import Call


class Authority:
    """Decides with the facts of queues, which it remembers for a moment."""

    def __init__(self, facts: FactCache) -> None:
        self._facts = facts

    async def check(self, request: Request, call: Call, identity: Identity) -> None:
        """Return if the caller may; raise AccessDenied if not."""
        key, queue = identity.key, call.queue
        if queue is None or call.action == "CreateQueue":
            access.check_own(key, call.action, f"arn:aws:sqs:{identity.region}:{key.account}:*")
            if queue is not None:
                access.check_queue(key, call.action, queue, (), {})
            return
        facts = self._facts.known(queue) or await self._looked_up(queue)
        # A queue that does not exist: its owner hears so from the action, a stranger does not.
        statements = () if facts is None else facts.statements
        given = _condition_facts(request, identity) if statements else {}
        access.check_queue(key, call.action, queue, statements, given)
        if destination := getattr(call.request, "DestinationArn", None):
            _check_destination(key, call.action, destination)

    async def _looked_up(self, queue: QueueId) -> QueueFacts | None:
        try:
            return await self._facts.get(queue)
        except Fault:
            return None


def _check_destination(key: AccessKey, action: str, arn: str) -> None:
    """Whoever moves messages must be at home where they go, as well as where they come from."""
    queue = locate_arn(arn)
    if queue is not None:
        access.check_queue(key, action, queue, (), {})


def _condition_facts(request: Request, identity: Identity) -> dict[str, str]:
    facts = {
        "aws:currenttime": datetime.now(UTC).isoformat(),
        "aws:epochtime": str(int(time.time())),
        "aws:principalarn": identity.key.arn,
        "aws:principalaccount": identity.key.account,
        "aws:userid": identity.key.user_id,
        "aws:username": identity.key.name or identity.key.access_key,
        "aws:principaltype": "User",
        "aws:requestedregion": identity.region,
        "aws:securetransport": "true" if request.scheme == "https" else "false",
        "aws:useragent": request.headers.get("user-agent", ""),
    }
    return facts if request.client is None else facts | {"aws:sourceip": request.client}
