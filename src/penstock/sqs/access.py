"""Who may do what: the key's role and queues, and the queue's policy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.sqs import errors, policy
from penstock.sqs.keys import Role
from penstock.sqs.policy import Caller, Decision, Question

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from penstock.sqs.keys import AccessKey
    from penstock.sqs.names import QueueId

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


def check_own(key: AccessKey, action: str, resource: str) -> None:
    """Actions on the account as a whole."""
    if not key.role.permits(action):
        raise errors.access_denied(
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
        decision = policy.decide(statements, Question(caller, action, queue.arn, facts))
    match decision:
        case Decision.DENY:
            raise _denied(key, action, queue, "the queue's policy denies it")
        case Decision.ALLOW:
            # For a stranger both sides have to agree: the queue's policy and the key's role.
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


def _denied(key: AccessKey, action: str, queue: QueueId, reason: str) -> errors.Fault:
    return errors.access_denied(key.arn, action, queue.arn, reason)
