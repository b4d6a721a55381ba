"""Requests and answers in both protocols, without a server or a database."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from typing import Any

import msgspec
import pytest

from penstock.sqs.protocol import json_protocol, query_protocol
from penstock.sqs.protocol.faults import Fault


def test_brackets_inside_texts_are_not_depth() -> None:
    json_protocol.check_depth(b'{"MessageBody": "' + b"[{" * 10_000 + b'\\"[[["}')
    with pytest.raises(Fault):
        json_protocol.check_depth(b"[" * 33)


def test_a_text_without_an_end_is_looked_at_once() -> None:
    # With a search that begins anew from each quote the test would not end.
    json_protocol.check_depth(b"[]" * 40 + b'"' + b'\\"' * 1_000_000)
    json_protocol.check_depth(b"[]" * 40 + b'"' + b'\\"' * 1_000_000 + b"\\")
    with pytest.raises(Fault, match="too deep"):
        json_protocol.check_depth(b'["]", ' * 40)


def test_xml_keeps_what_a_parser_would_change() -> None:
    body = "a\r\nb\rc\t<&>\"' ü😀 ]]>"
    answer = {"Messages": [{"Body": body, "Attributes": {"SenderId": "x&y"}}]}
    root = ET.fromstring(query_protocol.write("ReceiveMessage", answer, "id"))
    space = {"q": query_protocol.NAMESPACE}
    assert root.findtext(".//q:Body", namespaces=space) == body
    assert root.findtext(".//q:Attribute/q:Value", namespaces=space) == "x&y"


@pytest.mark.parametrize(
    ("action", "form", "wanted"),
    [
        ("TagQueue", "Tags.1.Key=a&Tags.1.Value=b", {"Tags": {"a": "b"}}),
        (
            "TagQueue",
            "Tag.2.Key=c&Tag.2.Value=d&Tag.1.Key=a&Tag.1.Value=",
            {"Tags": {"a": "", "c": "d"}},
        ),
        ("UntagQueue", "TagKey.10=j&TagKey.2=b", {"TagKeys": ["b", "j"]}),
        ("GetQueueAttributes", "AttributeName=All", {"AttributeNames": ["All"]}),
        ("GetQueueAttributes", "AttributeName.member.1=All", {"AttributeNames": ["All"]}),
        (
            "CreateQueue",
            "QueueName=q&Attribute.1.Name=a&Attribute.1.Value=1",
            {"QueueName": "q", "Attributes": {"a": "1"}},
        ),
        ("ReceiveMessage", "MaxNumberOfMessages=3", {"MaxNumberOfMessages": 3}),
        ("ListQueues", "", {}),
    ],
)
def test_forms_become_the_requests_of_json(action: str, form: str, wanted: Any) -> None:
    struct = query_protocol.read(action, query_protocol.parameters(form))
    assert msgspec.json.decode(json_protocol.text_of(struct)) == wanted
