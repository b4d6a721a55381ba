"""The query protocol: a request is a form, its answer XML.

Action=SendMessage&MessageBody=hi&MessageAttribute.1.Name=city&MessageAttribute.1.Value.…

The parameters of a form become the same structs as the JSON protocol's requests.  The answer is
written by hand along its shape.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, assert_never
from urllib.parse import parse_qsl

import msgspec

from penstock.sqs.protocol import faults
from penstock.sqs.protocol.json_protocol import type_of
from penstock.sqs.protocol.sqs_model import ACTIONS, SHAPES
from penstock.sqs.protocol.wire_shapes import (
    Blob,
    ListOf,
    MapOf,
    Member,
    Shape,
    Structure,
    Text,
    Truth,
    Whole,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.sqs.protocol.faults import Fault

CONTENT_TYPE = b"text/xml"
NAMESPACE = "http://queue.amazonaws.com/doc/2012-11-05/"
STS_NAMESPACE = "https://sts.amazonaws.com/doc/2011-06-15/"

_DECLARATION = '<?xml version="1.0"?>'
# A parser turns a bare carriage return into a line feed; a character reference it leaves alone.
_SPECIAL = re.compile(r'[&<>"\r]')
_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "\r": "&#xD;"}
# What XML 1.0 can't hold, not even as a reference.
_FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")

Tree = dict[str, Any]
# Message attributes are the deepest: entry, number, attribute, number, Value, StringValue.
_DEEPEST = 10
# Amazon's older list notation has a word between the name and the number.
_FILLERS = ("member", "entry")
_LONGEST_NUMBER = 9
# Ten entries with ten attributes each of four fields, and room.
_MOST_PARAMETERS = 2000


def parameters(text: str) -> dict[str, str]:
    """The parameters of a query string or form; of a repeated one the last."""
    try:
        pairs = parse_qsl(
            text,
            keep_blank_values=True,
            strict_parsing=False,
            errors="strict",
            max_num_fields=_MOST_PARAMETERS,
        )
    except ValueError:
        raise faults.malformed("The parameters can't be read.") from None
    return dict(pairs)


def read(action: str, given: Mapping[str, str]) -> Any:
    """The request as a struct of the action's input shape."""
    shape = ACTIONS[action].input
    value = _value(SHAPES[shape], _tree(given)) or {}
    try:
        return msgspec.convert(value, type_of(shape), strict=False)
    except msgspec.ValidationError as problem:
        raise faults.malformed(str(problem)) from None


def _tree(given: Mapping[str, str]) -> Tree:
    """Nest parameters by the dots of their names; a value is stored under the empty name."""
    root: Tree = {}
    for name, value in given.items():
        # Values are stored under the empty name, so no branch may have it.
        parts = [part for part in name.split(".", _DEEPEST) if part and part not in _FILLERS]
        branch = root
        for part in parts:
            branch = branch.setdefault(part, {})
        branch[""] = value
    return root


def _value(shape: Shape, tree: Tree) -> Any:
    match shape:
        case Text() | Blob() | Whole() | Truth():
            return tree.get("")
        case ListOf(item, _):
            return [_value(SHAPES[item], each) for each in _numbered(tree)]
        case MapOf():
            return _map(shape, tree)
        case Structure(members):
            found = {
                name: _value(SHAPES[member.shape], _branch(tree, name, member.query_name))
                for name, member in members.items()
                if name in tree or member.query_name in tree
            }
            return {name: value for name, value in found.items() if value is not None}
        case other:
            assert_never(other)


def _branch(tree: Tree, name: str, query_name: str) -> Tree:
    # Some clients write the plural name of the JSON protocol: Tags.1.Key.
    found: Tree = tree.get(query_name) or tree[name]
    return found


def _map(shape: MapOf, tree: Tree) -> dict[str, Any]:
    pairs: dict[str, Any] = {}
    for each in _numbered(tree):
        key = each.get(shape.key_name, {}).get("")
        if key is not None:
            pairs[key] = _value(SHAPES[shape.value], each.get(shape.value_name, {}))
    # A pair without a value is left out; the action refuses what it misses.
    return {key: value for key, value in pairs.items() if value is not None}


def _numbered(tree: Tree) -> list[Tree]:
    """The elements in the order of their numbers; a lone value without one is a list of it."""
    digits = [part for part in tree if part.isascii() and part.isdigit()]
    if any(len(part) > _LONGEST_NUMBER for part in digits):
        raise faults.malformed("The number of an element is too long.")
    numbers = sorted((int(part), part) for part in digits)
    if not numbers and "" in tree:
        return [tree]
    return [tree[part] for _, part in numbers]


def write(action: str, answer: dict[str, Any], request_id: str) -> bytes:
    """The document for an action's answer."""
    output = ACTIONS[action].output
    result = "" if output is None else f"<{action}Result>{_inside(output, answer)}</{action}Result>"
    return _document(
        f"{action}Response",
        NAMESPACE,
        f"{result}<ResponseMetadata><RequestId>{request_id}</RequestId></ResponseMetadata>",
    )


def write_fault(fault: Fault, request_id: str) -> bytes:
    """The document for a refusal."""
    if not fault.message and fault.status == 404:  # noqa: PLR2004
        return f"<{fault.shape}/>".encode()
    kind = "Sender" if fault.is_senders else "Receiver"
    return _document(
        "ErrorResponse",
        NAMESPACE,
        f"<Error><Type>{kind}</Type><Code>{_escaped(fault.query_code)}</Code>"
        f"<Message>{_escaped(fault.message)}</Message><Detail/></Error>"
        f"<RequestId>{request_id}</RequestId>",
    )


def write_identity(account: str, arn: str, user_id: str, request_id: str) -> bytes:
    """The answer to sts:GetCallerIdentity."""
    return _document(
        "GetCallerIdentityResponse",
        STS_NAMESPACE,
        f"<GetCallerIdentityResult><Arn>{_escaped(arn)}</Arn><UserId>{_escaped(user_id)}</UserId>"
        f"<Account>{_escaped(account)}</Account></GetCallerIdentityResult>"
        f"<ResponseMetadata><RequestId>{request_id}</RequestId></ResponseMetadata>",
    )


def _document(root: str, namespace: str, inside: str) -> bytes:
    return f'{_DECLARATION}<{root} xmlns="{namespace}">{inside}</{root}>'.encode()


def _inside(structure: str, value: dict[str, Any]) -> str:
    shape = SHAPES[structure]
    assert isinstance(shape, Structure)
    return "".join(
        _member(member, value[name]) for name, member in shape.members.items() if name in value
    )


def _member(member: Member, value: Any) -> str:
    match SHAPES[member.shape]:
        case ListOf(item, name):
            return "".join(_element(name, item, each) for each in value)
        case MapOf(_, held, key_name, value_name):
            return "".join(
                f"<{member.query_name}><{key_name}>{_escaped(key)}</{key_name}>"
                f"{_element(value_name, held, each)}</{member.query_name}>"
                for key, each in value.items()
            )
        case _:
            return _element(member.query_name, member.shape, value)


def _element(name: str, shape: str, value: Any) -> str:
    return f"<{name}>{_content(shape, value)}</{name}>"


def _content(shape: str, value: Any) -> str:
    match SHAPES[shape]:
        case Text() | Blob():
            return _escaped(value)
        case Whole():
            return str(value)
        case Truth():
            return "true" if value else "false"
        case Structure():
            return _inside(shape, value)
        case ListOf() | MapOf():
            raise AssertionError(f"{shape} stands where SQS has no list")
        case other:
            assert_never(other)


def _escaped(text: str) -> str:
    text = _FORBIDDEN.sub("\ufffd", text)
    return _SPECIAL.sub(lambda found: _ENTITIES[found.group()], text)
