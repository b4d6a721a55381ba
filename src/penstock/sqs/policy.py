"""Policy documents: does this one let a caller do that?  Pure: a document and facts in, a word out.

An explicit Deny beats every Allow.  What can't be understood (an unknown condition) never allows,
and denies where its statement denies: a policy is never more open than it says.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, auto
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import msgspec

from penstock.sqs import conditions

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# One permission covers an action and its batch, as in SQS.
_SINGULAR = {
    "SendMessageBatch": "SendMessage",
    "DeleteMessageBatch": "DeleteMessage",
    "ChangeMessageVisibilityBatch": "ChangeMessageVisibility",
}


class Decision(Enum):
    """What a policy says of a request."""

    ALLOW = auto()
    DENY = auto()
    SILENT = auto()


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks."""

    account: str
    arn: str


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked: may this caller do this action on this queue, given these facts?"""

    caller: Caller
    action: str
    resource: str
    facts: Mapping[str, str] = field(default_factory=dict)
    """Condition keys in lowercase: `aws:sourceip`, `aws:currenttime`, …"""


@lru_cache(maxsize=256)
def parse(document: str) -> tuple[Mapping[str, Any], ...]:
    """The statements of a document; one that can't be read has none."""
    try:
        found = msgspec.json.decode(document)
    except (msgspec.DecodeError, RecursionError):
        return ()
    statements = found.get("Statement", ()) if isinstance(found, dict) else ()
    return tuple(each for each in _several(statements) if isinstance(each, dict))


def decide(statements: Sequence[Mapping[str, Any]], question: Question) -> Decision:
    """The policy's word on a question."""
    applying = [each.get("Effect") for each in statements if _applies(each, question)]
    if "Deny" in applying:
        return Decision.DENY
    return Decision.ALLOW if "Allow" in applying else Decision.SILENT


def _applies(statement: Mapping[str, Any], question: Question) -> bool:
    denies = statement.get("Effect") == "Deny"
    return (
        _matches_principal(statement, question.caller)
        and _matches_action(statement, question.action)
        and _matches_resource(statement, question.resource)
        and conditions.hold(statement.get("Condition"), question.facts, if_unknown=denies)
    )


def _matches_principal(statement: Mapping[str, Any], caller: Caller) -> bool:
    if "NotPrincipal" in statement:
        return not _names(statement["NotPrincipal"], caller)
    return _names(statement.get("Principal"), caller)


def _names(principal: Any, caller: Caller) -> bool:
    if principal == "*":
        return True
    if not isinstance(principal, dict):
        return False
    return any(_is(each, caller) for each in _several(principal.get("AWS", ())))


def _is(named: Any, caller: Caller) -> bool:
    root = f"arn:aws:iam::{caller.account}:root"
    return named in ("*", caller.account, root, caller.arn)


def _matches_action(statement: Mapping[str, Any], action: str) -> bool:
    wanted = f"sqs:{_SINGULAR.get(action, action)}".lower()
    full = f"sqs:{action}".lower()

    def names(patterns: Any) -> bool:
        return any(
            isinstance(each, str)
            and (conditions.like(wanted, each.lower()) or conditions.like(full, each.lower()))
            for each in _several(patterns)
        )

    if "NotAction" in statement:
        return not names(statement["NotAction"])
    return names(statement.get("Action", ()))


def _matches_resource(statement: Mapping[str, Any], resource: str) -> bool:
    def names(patterns: Any) -> bool:
        return any(
            isinstance(each, str) and conditions.like(resource, each) for each in _several(patterns)
        )

    if "NotResource" in statement:
        return not names(statement["NotResource"])
    # Old policies leave the resource out: it is the queue that they are attached to.
    return "Resource" not in statement or names(statement["Resource"])


def _several(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list | tuple) else (value,)
