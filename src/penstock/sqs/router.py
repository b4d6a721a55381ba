"""From an HTTP request to a call: which protocol, which action, on which queue."""

from __future__ import annotations

import re
from base64 import b64decode
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from penstock.sqs import errors, limits
from penstock.sqs.model import ACTIONS, SHAPES
from penstock.sqs.names import QueueId, locate, locate_arn
from penstock.sqs.shapes import Structure
from penstock.sqs.wire import json, query_form

if TYPE_CHECKING:
    from penstock.sqs.identity import Identity
    from penstock.sqs.request import Request

STS_ACTION = "GetCallerIdentity"
_FORM = "application/x-www-form-urlencoded"
_TARGET = "x-amz-target"
_SENDS = frozenset({"SendMessage", "SendMessageBatch"})
# Whether a NUL is one or the end of a longer run of backslashes tells only the whole run.
_NUL = re.compile(rb"(?<!\\)((?:\\\\)*)\\u0000")


class Protocol(Enum):
    """The two wires."""

    JSON = "json"
    QUERY = "query"


class Call(NamedTuple):
    """What a client wants."""

    action: str
    request: Any
    queue: QueueId | None
    """Of the actions on one queue."""


def protocol_of(request: Request) -> Protocol:
    return Protocol.JSON if _TARGET in request.headers else Protocol.QUERY


def with_parameters(request: Request, protocol: Protocol) -> Request:
    """The request with the parameters of its query string and, in the query protocol, its form."""
    if "content-encoding" in request.headers:
        limits.check_encoding(request.headers["content-encoding"])
    if len(request.query) > limits.LONGEST_QUERY or len(request.path) > limits.LONGEST_PATH:
        raise errors.malformed("The address is too long.")
    given = query_form.parameters(request.query) if request.query else {}
    if protocol is Protocol.JSON:
        if request.method != "POST":
            raise errors.wrong_method(request.method)
        return request._replace(parameters=given) if given else request
    if request.method not in ("GET", "POST"):
        raise errors.wrong_method(request.method)
    if request.method == "POST" and _is_form(request):
        try:
            text = request.body.decode()
        except UnicodeDecodeError:
            raise errors.malformed("The form is not UTF-8.") from None
        given = given | query_form.parameters(text)
    return request._replace(parameters=given)


def _is_form(request: Request) -> bool:
    kind = request.headers.get("content-type", _FORM).partition(";")[0].strip().lower()
    return kind == _FORM


def action_of(request: Request) -> str:
    """The action's name; raises when there is none, or none of this name."""
    if (target := request.headers.get(_TARGET)) is not None:
        return json.action_of(target)
    name = request.parameters.get("Action")
    if not name:
        raise errors.unknown_operation()
    if name != STS_ACTION and name not in ACTIONS:
        raise errors.unknown_action(name)
    return name


def read(request: Request, action: str, protocol: Protocol, identity: Identity) -> Call:
    """The action's request, and the queue that it is about."""
    if protocol is Protocol.JSON:
        struct = json.read(action, request.body)
    else:
        struct = query_form.read(action, request.parameters)
        _take_path(struct, action, request.path)
    queue = _queue(struct, identity)
    if queue is not None and getattr(struct, "QueueUrl", None):
        # The database reads addresses as well.  What it is given is what will be checked here: with
        # the client's own words it might find another queue, and somebody else's.
        struct.QueueUrl = queue.path
    return Call(action, struct, queue)


def _take_path(struct: Any, action: str, path: str) -> None:
    """In the query protocol the path may name the queue."""
    if not path.strip("/"):
        return
    shape = SHAPES[ACTIONS[action].input]
    assert isinstance(shape, Structure)
    if "QueueUrl" not in shape.members:
        raise errors.unknown_action(action)
    if not struct.QueueUrl:
        struct.QueueUrl = path


def _queue(struct: Any, identity: Identity) -> QueueId | None:
    account, region = identity.key.account, identity.region
    if url := getattr(struct, "QueueUrl", None):
        address = locate(url)
        return QueueId(address.account or account, address.region or region, address.name)
    if arn := getattr(struct, "SourceArn", None) or _source_of(struct):
        return locate_arn(arn)
    if name := getattr(struct, "QueueName", None):
        owner = getattr(struct, "QueueOwnerAWSAccountId", None)
        return QueueId(owner or account, region, name)
    return None


def _source_of(struct: Any) -> str | None:
    """The queue that a move task empties, as its handle tells."""
    try:
        found = msgspec.json.decode(b64decode(getattr(struct, "TaskHandle", None) or ""))
        return str(found["sourceArn"])
    except (ValueError, msgspec.DecodeError, RecursionError, TypeError, KeyError):
        # No handle at all: the database says so.
        return None


def text_of(call: Call) -> bytes:
    """The request as JSON for the database, which has no NUL."""
    text = json.text_of(call.request)
    if b"\\u0000" in text and _NUL.search(text):
        if call.action not in _SENDS:
            raise errors.malformed("A value holds the character U+0000.")
        # As forbidden in a message as NUL itself, and the database can be told of it.
        text = _NUL.sub(rb"\1\\u0001", text)
    return text
