"""One request: as HTTP brought it, and the call that it asks for.

`Request` is what both protocols and the signature are read from.  `read` makes a `Call` of it: an
action, the request of the action, and the queue that it is about.
"""

from __future__ import annotations

import re
from base64 import b64decode
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from penstock.sqs.protocol import faults, json_protocol, query_protocol
from penstock.sqs.protocol.queue_names import QueueId, locate, locate_arn
from penstock.sqs.protocol.sqs_model import ACTIONS, SHAPES
from penstock.sqs.protocol.wire_shapes import Structure

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

STS_ACTION = "GetCallerIdentity"
_LONGEST_PATH = 2048
_LONGEST_QUERY = 64 * 1024
_FORM = "application/x-www-form-urlencoded"
_TARGET = "x-amz-target"
_SENDS = frozenset({"SendMessage", "SendMessageBatch"})
# The whole run of backslashes tells whether this is an escaped NUL or an escaped backslash.
_NUL = re.compile(rb"(?<!\\)((?:\\\\)*)\\u0000")
# If one of these came twice, a proxy might read the first and the server the second.
_SINGLE = frozenset(
    {"authorization", "host", "content-type", "x-amz-date", "x-amz-target", "x-amz-security-token"}
)


class Request(NamedTuple):
    """Names of headers are lowercase; the path and the query string are as they were sent."""

    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    body: bytes
    scheme: str = "http"
    client: str | None = None
    """The address that the request came from."""
    parameters: Mapping[str, str] = {}
    """Of the query string and, in the query protocol, of the form."""


class Protocol(Enum):
    """The two protocols of SQS."""

    JSON = "json"
    QUERY = "query"


class Call(NamedTuple):
    """What a client asks for."""

    action: str
    request: Any
    queue: QueueId | None
    """Of the actions on one queue."""


def fold(headers: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """Headers by their (lowercase) name; a repeated one is one with commas, as HTTP has it."""
    found: dict[str, str] = {}
    for raw_name, raw_value in headers:
        name = raw_name.decode("latin-1")
        value = raw_value.decode("latin-1")
        if name in found:
            if name in _SINGLE:
                raise faults.malformed(f"The header {name} is there twice.")
            value = f"{found[name]},{value}"
        found[name] = value
    return found


def forwarded(request: Request) -> Request:
    """The request as the client sent it to the proxy, by the headers that the proxy added."""
    first = {
        name: request.headers.get(f"x-forwarded-{name}", "").partition(",")[0].strip()
        for name in ("for", "proto")
    }
    return request._replace(
        client=first["for"] or request.client, scheme=first["proto"] or request.scheme
    )


def protocol_of(request: Request) -> Protocol:
    return Protocol.JSON if _TARGET in request.headers else Protocol.QUERY


def with_parameters(request: Request, protocol: Protocol) -> Request:
    """The request with the parameters of its query string and, in the query protocol, its form."""
    if "content-encoding" in request.headers:
        _check_encoding(request.headers["content-encoding"])
    if len(request.query) > _LONGEST_QUERY or len(request.path) > _LONGEST_PATH:
        raise faults.malformed("The address is too long.")
    given = query_protocol.parameters(request.query) if request.query else {}
    if protocol is Protocol.JSON:
        if request.method != "POST":
            raise faults.wrong_method(request.method)
        return request._replace(parameters=given) if given else request
    if request.method not in ("GET", "POST"):
        raise faults.wrong_method(request.method)
    if request.method == "POST" and _is_form(request):
        try:
            text = request.body.decode()
        except UnicodeDecodeError:
            raise faults.malformed("The form is not UTF-8.") from None
        given = given | query_protocol.parameters(text)
    return request._replace(parameters=given)


def _check_encoding(encoding: str) -> None:
    """Refuse compressed bodies: a small one may unpack to a very large one."""
    if encoding.strip().lower() not in ("", "identity"):
        raise faults.unsupported_encoding()


def _is_form(request: Request) -> bool:
    kind = request.headers.get("content-type", _FORM).partition(";")[0].strip().lower()
    return kind == _FORM


def action_of(request: Request) -> str:
    """The action's name; raises when there is none, or none of this name."""
    if (target := request.headers.get(_TARGET)) is not None:
        return json_protocol.action_of(target)
    name = request.parameters.get("Action")
    if not name:
        raise faults.unknown_operation()
    if name != STS_ACTION and name not in ACTIONS:
        raise faults.unknown_action(name)
    return name


def read(request: Request, action: str, protocol: Protocol, account: str, region: str) -> Call:
    """The call; a queue that is named without account and region is in these."""
    if protocol is Protocol.JSON:
        struct = json_protocol.read(action, request.body)
    else:
        struct = query_protocol.read(action, request.parameters)
        _take_path(struct, action, request.path)
    queue = queue_of(struct, account, region)
    if queue is not None and getattr(struct, "QueueUrl", None):
        # The database reads addresses as well.  It gets the one that is checked here: in the
        # client's own text it might find another queue, one of another account.
        struct.QueueUrl = queue.path
    return Call(action, struct, queue)


def _take_path(struct: Any, action: str, path: str) -> None:
    """In the query protocol the path may name the queue."""
    if not path.strip("/"):
        return
    shape = SHAPES[ACTIONS[action].input]
    assert isinstance(shape, Structure)
    if "QueueUrl" not in shape.members:
        raise faults.unknown_action(action)
    if not struct.QueueUrl:
        struct.QueueUrl = path


def queue_of(struct: Any, account: str, region: str) -> QueueId | None:
    """The queue that a request names: by its URL, its ARN, its name, or the handle of a task."""
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
    text = json_protocol.text_of(call.request)
    if b"\\u0000" in text and _NUL.search(text):
        if call.action not in _SENDS:
            raise faults.malformed("A value holds the character U+0000.")
        # The database can hold U+0001, which is as forbidden in a message as NUL.
        text = _NUL.sub(rb"\1\\u0001", text)
    return text
