"""The query protocol's answers: XML, written by hand along the shape of the answer."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, assert_never

from penstock.sqs.model import ACTIONS, SHAPES
from penstock.sqs.shapes import Blob, ListOf, MapOf, Member, Structure, Text, Truth, Whole

if TYPE_CHECKING:
    from penstock.sqs.errors import Fault

CONTENT_TYPE = b"text/xml"
NAMESPACE = "http://queue.amazonaws.com/doc/2012-11-05/"
STS_NAMESPACE = "https://sts.amazonaws.com/doc/2011-06-15/"

_DECLARATION = '<?xml version="1.0"?>'
# A parser turns a bare carriage return into a line feed; a character reference it leaves alone.
_SPECIAL = re.compile(r'[&<>"\r]')
_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "\r": "&#xD;"}
# What XML 1.0 can't hold, not even as a reference.
_FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")


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
