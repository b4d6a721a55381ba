"""Whether a caller may do what it asks for: the key's role and queues, the queue's policy."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from penstock.sqs.auth import queue_policy
from penstock.sqs.auth.access_keys import Role
from penstock.sqs.auth.queue_policy import Caller, Decision, Question
from penstock.sqs.protocol import faults
from penstock.sqs.protocol.queue_names import locate_arn

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from penstock.sqs.auth.access_keys import AccessKey
    from penstock.sqs.auth.authentication import Identity
    from penstock.sqs.protocol.queue_names import QueueId
    from penstock.sqs.protocol.sqs_request import Call, Request

CREATE = "CreateQueue"
# SQS keeps these for the queue's owner, whatever a policy says.
OWNERS_ONLY = frozenset(
    {
        "AddPermission",
        "CancelMessageMoveTask",
        "CreateQueue",
        "DeleteQueue",
        "ListMessageMoveTasks",
        "ListQueues",
        "ListQueueTags",
        "RemovePermission",
        "SetQueueAttributes",
        "StartMessageMoveTask",
        "TagQueue",
        "UntagQueue",
    }
)
# With these a policy that denies too much is mended, so an owner's admin key always may.
_REPAIRS = frozenset(
    {
        "AddPermission",
        "DeleteQueue",
        "GetQueueAttributes",
        "GetQueueUrl",
        "RemovePermission",
        "SetQueueAttributes",
    }
)


def check(
    request: Request, call: Call, identity: Identity, statements: Sequence[Mapping[str, Any]]
) -> None:
    """Return if the caller may; raise AccessDenied if not.  `statements` are of the queue's policy.

    A queue that does not exist has none.  Then its owner gets QueueDoesNotExist from the action,
    and another account gets AccessDenied.
    """
    key, queue = identity.key, call.queue
    if queue is None or call.action == CREATE:
        check_own(key, call.action, f"arn:aws:sqs:{identity.region}:{key.account}:*")
        if queue is not None:
            check_queue(key, call.action, queue, (), {})
        return
    facts = _condition_facts(request, identity) if statements else {}
    check_queue(key, call.action, queue, statements, facts)
    if destination := getattr(call.request, "DestinationArn", None):
        _check_destination(key, call.action, destination)


def check_own(key: AccessKey, action: str, resource: str) -> None:
    """Actions on the account as a whole."""
    if not key.role.permits(action):
        raise faults.access_denied(
            key.arn, action, resource, f"the role {key.role.value} does not allow it"
        )


def check_queue(
    key: AccessKey,
    action: str,
    queue: QueueId,
    statements: Sequence[Mapping[str, Any]],
    facts: Mapping[str, str],
) -> None:
    """Return if the key may; raise AccessDenied if not."""
    own = key.account == queue.account
    permitted = key.role.permits(action) and (not own or key.reaches(queue.name))
    if own and permitted and key.role is Role.ADMIN and action in _REPAIRS:
        return
    if not own and action in OWNERS_ONLY:
        raise _denied(key, action, queue, "only the queue's owner may do this")
    if not statements:
        decision = Decision.SILENT
    else:
        caller = Caller(key.account, key.arn)
        decision = queue_policy.decide(statements, Question(caller, action, queue.arn, facts))
    match decision:
        case Decision.DENY:
            raise _denied(key, action, queue, "the queue's policy denies it")
        case Decision.ALLOW:
            # For another account's key both must allow it: the queue's policy and the key's role.
            if not own and not key.role.permits(action):
                raise _denied(key, action, queue, f"the role {key.role.value} does not allow it")
        case Decision.SILENT:
            if not own:
                raise _denied(key, action, queue, "no resource-based policy allows it")
            if not permitted:
                raise _denied(
                    key,
                    action,
                    queue,
                    f"the key is a {key.role.value} of other queues"
                    if key.role.permits(action)
                    else f"the role {key.role.value} does not allow it",
                )


def _denied(key: AccessKey, action: str, queue: QueueId, reason: str) -> faults.Fault:
    return faults.access_denied(key.arn, action, queue.arn, reason)


def _check_destination(key: AccessKey, action: str, arn: str) -> None:
    """A key that moves messages must be allowed at the destination as well as at the source."""
    queue = locate_arn(arn)
    if queue is not None:
        check_queue(key, action, queue, (), {})


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
