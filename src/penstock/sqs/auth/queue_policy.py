"""The policy of a queue: does it let a caller do that?  A document and facts in, a decision out.

An explicit Deny beats every Allow.  What can't be understood (an unknown condition) never allows,
and denies where its statement denies: a policy is never more open than it says.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum, auto
from functools import lru_cache
from ipaddress import ip_address, ip_network
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from collections.abc import Sequence

Test = Callable[[str, str], bool]

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
    """The sender of a request."""

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
    """The decision of the policy."""
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
        and _conditions_hold(statement.get("Condition"), question.facts, if_unknown=denies)
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
            isinstance(each, str) and (like(wanted, each.lower()) or like(full, each.lower()))
            for each in _several(patterns)
        )

    if "NotAction" in statement:
        return not names(statement["NotAction"])
    return names(statement.get("Action", ()))


def _matches_resource(statement: Mapping[str, Any], resource: str) -> bool:
    def names(patterns: Any) -> bool:
        return any(isinstance(each, str) and like(resource, each) for each in _several(patterns))

    if "NotResource" in statement:
        return not names(statement["NotResource"])
    # Old policies leave the resource out: it is the queue that they are attached to.
    return "Resource" not in statement or names(statement["Resource"])


def _several(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list | tuple) else (value,)


def _conditions_hold(block: Any, facts: Mapping[str, str], *, if_unknown: bool) -> bool:
    """Whether every condition of the block is met; `if_unknown` answers what can't be judged."""
    if not block:
        return True
    if not isinstance(block, dict):
        return if_unknown
    return all(
        _holds(operator, name, wanted, facts, if_unknown=if_unknown)
        for operator, pairs in block.items()
        for name, wanted in (pairs.items() if isinstance(pairs, dict) else [("", None)])
    )


def _holds(
    operator: str, name: str, wanted: Any, facts: Mapping[str, str], *, if_unknown: bool
) -> bool:
    values = [_text(each) for each in (wanted if isinstance(wanted, list) else [wanted])]
    fact = facts.get(name.lower())
    base = operator.removesuffix("IfExists")
    if base == "Null":
        return (fact is None) == (values == ["true"])
    known = _TESTS.get(base)
    if known is None:
        return if_unknown
    test, negative = known
    if fact is None:
        # A negative test of what is not there holds; so do the …IfExists forms.
        return negative or base != operator
    try:
        met = any(test(fact, value) for value in values)
    except (ValueError, OverflowError, OSError):
        # The last two: a moment that no calendar has.
        return if_unknown
    return not met if negative else met


def like(text: str, pattern: str) -> bool:
    """A match with `*` and `?`, and with nothing else."""
    return _compiled(pattern).fullmatch(text) is not None


@lru_cache(maxsize=1024)
def _compiled(pattern: str) -> re.Pattern[str]:
    first, *others = ("".join(map(_one, piece)) for piece in pattern.split("*"))
    if not others:
        return re.compile(first, re.DOTALL)
    # Where a piece is found first is as good as any later place, so it is never looked for again
    # (an atomic group): else a pattern of many stars could keep the server busy for years.
    middle = "".join(f"(?>.*?{each})" for each in others[:-1] if each)
    return re.compile(f"{first}{middle}.*{others[-1]}", re.DOTALL)


def _one(character: str) -> str:
    return "." if character == "?" else re.escape(character)


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _equal_ignoring_case(fact: str, value: str) -> bool:
    return fact.lower() == value.lower()


def _in_network(fact: str, value: str) -> bool:
    return ip_address(fact) in ip_network(value, strict=False)


def _moment(text: str) -> datetime:
    if text.isdigit():
        return datetime.fromtimestamp(int(text), UTC)
    found = datetime.fromisoformat(text)
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def _dates(compare: Callable[[datetime, datetime], bool]) -> Test:
    return lambda fact, value: compare(_moment(fact), _moment(value))


def _numbers(compare: Callable[[float, float], bool]) -> Test:
    return lambda fact, value: compare(float(fact), float(value))


def _equal(fact: str, value: str) -> bool:
    return fact == value


# operator → its test, and whether it is the negative of it
_TESTS: dict[str, tuple[Test, bool]] = {
    "ArnEquals": (like, False),
    "ArnLike": (like, False),
    "ArnNotEquals": (like, True),
    "ArnNotLike": (like, True),
    "Bool": (_equal_ignoring_case, False),
    "DateEquals": (_dates(lambda a, b: a == b), False),
    "DateGreaterThan": (_dates(lambda a, b: a > b), False),
    "DateGreaterThanEquals": (_dates(lambda a, b: a >= b), False),
    "DateLessThan": (_dates(lambda a, b: a < b), False),
    "DateLessThanEquals": (_dates(lambda a, b: a <= b), False),
    "DateNotEquals": (_dates(lambda a, b: a == b), True),
    "IpAddress": (_in_network, False),
    "NotIpAddress": (_in_network, True),
    "NumericEquals": (_numbers(lambda a, b: a == b), False),
    "NumericGreaterThan": (_numbers(lambda a, b: a > b), False),
    "NumericGreaterThanEquals": (_numbers(lambda a, b: a >= b), False),
    "NumericLessThan": (_numbers(lambda a, b: a < b), False),
    "NumericLessThanEquals": (_numbers(lambda a, b: a <= b), False),
    "NumericNotEquals": (_numbers(lambda a, b: a == b), True),
    "StringEquals": (_equal, False),
    "StringEqualsIgnoreCase": (_equal_ignoring_case, False),
    "StringLike": (like, False),
    "StringNotEquals": (_equal, True),
    "StringNotEqualsIgnoreCase": (_equal_ignoring_case, True),
    "StringNotLike": (like, True),
}
