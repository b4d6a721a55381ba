"""AddPermission and RemovePermission: the policy that they write."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.sqs_sql.caller import ARN, Sqs


@pytest.fixture
def q(sqs: Sqs) -> Sqs:
    sqs.create("q")
    return sqs


def add(
    sqs: Sqs, label: str, accounts: tuple[str, ...] = ("111111111111",), actions: Any = None
) -> None:
    sqs("AddPermission", **request(label, accounts, actions))


def request(
    label: str, accounts: tuple[str, ...] = ("111111111111",), actions: Any = None
) -> dict[str, Any]:
    return {
        "QueueUrl": "q",
        "Label": label,
        "AWSAccountIds": list(accounts),
        "Actions": actions or ["SendMessage"],
    }


def test_a_permission_becomes_a_statement_of_the_policy(q: Sqs) -> None:
    add(q, "one")
    add(q, "two", ("111111111111", "222222222222"), ["ReceiveMessage", "DeleteMessage"])

    assert json.loads(q.attributes()["Policy"]) == {
        "Version": "2008-10-17",
        "Id": f"{ARN}q/SQSDefaultPolicy",
        "Statement": [
            {
                "Sid": "one",
                "Effect": "Allow",
                "Principal": {"AWS": "arn:aws:iam::111111111111:root"},
                "Action": "SQS:SendMessage",
                "Resource": f"{ARN}q",
            },
            {
                "Sid": "two",
                "Effect": "Allow",
                "Principal": {
                    "AWS": ["arn:aws:iam::111111111111:root", "arn:aws:iam::222222222222:root"]
                },
                "Action": ["SQS:ReceiveMessage", "SQS:DeleteMessage"],
                "Resource": f"{ARN}q",
            },
        ],
    }


def test_the_policy_goes_with_its_last_statement(q: Sqs) -> None:
    add(q, "one")
    add(q, "two")

    q("RemovePermission", QueueUrl="q", Label="one")
    assert [s["Sid"] for s in json.loads(q.attributes()["Policy"])["Statement"]] == ["two"]
    q("RemovePermission", QueueUrl="q", Label="two")

    assert "Policy" not in q.attributes()


def test_labels_are_unique_and_known(q: Sqs) -> None:
    add(q, "one")

    twice = q.refusal("AddPermission", **request("one"))
    unknown = q.refusal("RemovePermission", QueueUrl="q", Label="two")

    assert (twice.code, twice.message) == (
        "InvalidParameterValue",
        "Value one for parameter Label is invalid. Reason: Already exists.",
    )
    assert (unknown.code, unknown.message) == (
        "InvalidParameterValue",
        "Value two for parameter Label is invalid. Reason: can't find label.",
    )


def test_a_permission_joins_a_policy_that_was_set(q: Sqs) -> None:
    statement = {"Sid": "mine", "Effect": "Deny", "Principal": "*", "Action": "SQS:*"}
    q.set(Policy=json.dumps({"Version": "2012-10-17", "Statement": statement}))

    add(q, "one")

    policy = json.loads(q.attributes()["Policy"])
    assert policy["Version"] == "2012-10-17"
    assert [s["Sid"] for s in policy["Statement"]] == ["mine", "one"]


def test_seven_actions_are_the_most(q: Sqs) -> None:
    refusal = q.refusal("AddPermission", **request("one", actions=["SendMessage"] * 8))

    assert (refusal.code, refusal.status) == ("OverLimit", 403)


def test_what_is_the_owners_alone_cannot_be_given_away(q: Sqs) -> None:
    for action in ("AddPermission", "DeleteQueue", "SetQueueAttributes", "Nonsense"):
        refusal = q.refusal("AddPermission", **request("one", actions=[action]))
        assert refusal.code == "InvalidParameterValue"
        assert refusal.message.endswith("Only the queue owner is allowed to invoke this action.")


def test_permissions_need_all_their_parts(q: Sqs) -> None:
    for part in ("Label", "AWSAccountIds", "Actions"):
        whole = request("one")
        del whole[part]
        assert q.refusal("AddPermission", **whole).code == "MissingParameter"
    assert q.refusal("AddPermission", **request("bad label")).code == "InvalidParameterValue"
    assert q.refusal("AddPermission", **request("one", ("me",))).code == "InvalidParameterValue"
