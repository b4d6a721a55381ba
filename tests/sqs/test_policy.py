"""Policy documents, without a server."""

from __future__ import annotations

import json
from typing import Any

import pytest

from penstock.sqs.auth import queue_policy
from penstock.sqs.auth.queue_policy import Caller, Decision, Question

QUEUE = "arn:aws:sqs:us-east-1:000000000000:orders"
EVE = Caller("111111111111", "arn:aws:iam::111111111111:user/eve")


def _decided(*statements: dict[str, Any], action: str = "SendMessage", **facts: str) -> Decision:
    found = queue_policy.parse(json.dumps({"Statement": list(statements)}))
    given = {name.replace("_", ":"): value for name, value in facts.items()}
    return queue_policy.decide(found, Question(EVE, action, QUEUE, given))


def _statement(**more: Any) -> dict[str, Any]:
    return {"Effect": "Allow", "Principal": "*", "Action": "SQS:SendMessage"} | more


@pytest.mark.parametrize(
    "principal",
    [
        "*",
        {"AWS": "*"},
        {"AWS": "111111111111"},
        {"AWS": ["222222222222", "arn:aws:iam::111111111111:root"]},
        {"AWS": EVE.arn},
    ],
)
def test_a_principal_that_is_the_caller_is_allowed(principal: Any) -> None:
    assert _decided(_statement(Principal=principal)) is Decision.ALLOW


@pytest.mark.parametrize(
    "principal",
    [
        {"AWS": "222222222222"},
        {"AWS": "arn:aws:iam::111111111111:user/adam"},
        {"Service": "sns.amazonaws.com"},
        "111111111111",
        {},
        None,
        7,
    ],
)
def test_another_principal_is_not(principal: Any) -> None:
    assert _decided(_statement(Principal=principal)) is Decision.SILENT


@pytest.mark.parametrize(
    "action",
    ["sqs:*", "*", "SQS:Send*", "sqs:sendmessage", ["a", "SQS:SendMessage"], "sqs:Send?essage"],
)
def test_actions_match_with_wildcards_in_any_case(action: Any) -> None:
    assert _decided(_statement(Action=action)) is Decision.ALLOW


@pytest.mark.parametrize(
    "action", ["sqs:Receive*", "sns:SendMessage", "SendMessage", "sqs:[A-Z]*", [], None]
)
def test_other_actions_do_not(action: Any) -> None:
    assert _decided(_statement(Action=action)) is Decision.SILENT


def test_a_permission_covers_the_batch() -> None:
    assert _decided(_statement(), action="SendMessageBatch") is Decision.ALLOW


def test_deny_beats_allow_in_any_order() -> None:
    deny = _statement(Effect="Deny")
    assert _decided(_statement(), deny) is Decision.DENY
    assert _decided(deny, _statement()) is Decision.DENY


@pytest.mark.parametrize("resource", ["*", QUEUE, "arn:aws:sqs:*:*:ord*", ["x", QUEUE]])
def test_a_resource_that_is_the_queue_matches(resource: Any) -> None:
    assert _decided(_statement(Resource=resource)) is Decision.ALLOW


@pytest.mark.parametrize(
    "resource", ["arn:aws:sqs:us-east-1:000000000000:other", "orders", [], "ord[e]rs"]
)
def test_another_resource_does_not(resource: Any) -> None:
    assert _decided(_statement(Resource=resource)) is Decision.SILENT


def test_the_negative_forms() -> None:
    assert _decided(_statement(NotAction="sqs:DeleteMessage", Action=None)) is Decision.ALLOW
    assert (
        _decided({"Effect": "Allow", "NotPrincipal": {"AWS": "222222222222"}, "Action": "*"})
        is Decision.ALLOW
    )
    assert _decided(_statement(NotResource=QUEUE)) is Decision.SILENT


CONDITIONS = [
    ({"IpAddress": {"aws:SourceIp": "10.0.0.0/8"}}, {"aws_sourceip": "10.1.2.3"}, True),
    ({"IpAddress": {"aws:SourceIp": "10.0.0.0/8"}}, {"aws_sourceip": "11.1.2.3"}, False),
    ({"IpAddress": {"aws:SourceIp": "10.0.0.0/8"}}, {}, False),
    ({"NotIpAddress": {"aws:SourceIp": "10.0.0.0/8"}}, {"aws_sourceip": "11.1.2.3"}, True),
    ({"Bool": {"aws:SecureTransport": "true"}}, {"aws_securetransport": "true"}, True),
    ({"Bool": {"aws:SecureTransport": True}}, {"aws_securetransport": "false"}, False),
    ({"StringEquals": {"aws:username": ["a", "eve"]}}, {"aws_username": "eve"}, True),
    ({"StringEquals": {"aws:username": "e*"}}, {"aws_username": "eve"}, False),
    ({"StringLike": {"aws:username": "e*"}}, {"aws_username": "eve"}, True),
    ({"StringNotLike": {"aws:username": "e*"}}, {"aws_username": "eve"}, False),
    (
        {"ArnLike": {"aws:SourceArn": "arn:aws:sns:*:*:t"}},
        {"aws_sourcearn": "arn:aws:sns:a:1:t"},
        True,
    ),
    ({"ArnEquals": {"aws:SourceArn": "arn:aws:sns:*:*:t"}}, {}, False),
    (
        {"DateGreaterThan": {"aws:CurrentTime": "2020-01-01T00:00:00Z"}},
        {"aws_currenttime": "2026-01-01T00:00:00+00:00"},
        True,
    ),
    ({"DateLessThan": {"aws:CurrentTime": "2020-01-01"}}, {"aws_currenttime": "2026-01-01"}, False),
    ({"NumericLessThan": {"aws:x": "10"}}, {"aws_x": "9"}, True),
    ({"StringEqualsIfExists": {"aws:x": "1"}}, {}, True),
    ({"Null": {"aws:x": "true"}}, {}, True),
    ({"Null": {"aws:x": "true"}}, {"aws_x": "1"}, False),
    ({"Inscrutable": {"aws:x": "1"}}, {"aws_x": "1"}, False),
    ({"IpAddress": {"aws:SourceIp": "nonsense"}}, {"aws_sourceip": "10.1.2.3"}, False),
    ({"DateLessThan": {"aws:x": "9" * 20}}, {"aws_x": "2026-01-01"}, False),
    ({"StringLike": {"aws:x": "*b*a*"}}, {"aws_x": "xbxax"}, True),
    ({"StringLike": {"aws:x": "a**?"}}, {"aws_x": "a"}, False),
    ({"StringLike": {"aws:x": "a**?"}}, {"aws_x": "ab"}, True),
    ({"StringLike": {"aws:x": "*ab*b"}}, {"aws_x": "ab"}, False),
    ({"StringLike": {"aws:x": "*ab*b"}}, {"aws_x": "aab\nb"}, True),
    ("nonsense", {}, False),
]


@pytest.mark.parametrize(("condition", "facts", "met"), CONDITIONS)
def test_conditions(condition: Any, facts: dict[str, str], met: bool) -> None:
    wanted = Decision.ALLOW if met else Decision.SILENT
    assert _decided(_statement(Condition=condition), **facts) is wanted


def test_what_can_not_be_judged_never_opens_a_denial() -> None:
    odd = _statement(Effect="Deny", Condition={"Inscrutable": {"aws:x": "1"}})
    assert _decided(_statement(), odd) is Decision.DENY


@pytest.mark.parametrize("text", ["", "{", "[]", "7", '{"Statement": 7}', "[" * 100_000])
def test_a_document_that_can_not_be_read_says_nothing(text: str) -> None:
    assert queue_policy.parse(text) == ()


def test_a_pattern_of_stars_is_matched_at_once() -> None:
    # With a matcher that goes back and forth the test would not end.
    assert _decided(_statement(Resource="*" + "s*" * 40 + "!")) is Decision.SILENT
    assert _decided(_statement(Action="*" + "s*" * 40 + "!")) is Decision.SILENT


def test_an_effect_that_is_no_text_says_nothing() -> None:
    assert _decided(_statement(Effect=["Allow"])) is Decision.SILENT
