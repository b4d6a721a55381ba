"""What goes back: status, headers, body, in either protocol."""

from __future__ import annotations

import itertools
import secrets
from http import HTTPStatus
from typing import TYPE_CHECKING, NamedTuple

from penstock.sqs.router import Protocol
from penstock.sqs.wire import json, query_xml

if TYPE_CHECKING:
    from penstock.sqs.errors import Fault

Headers = list[tuple[bytes, bytes]]

_STATUS_LINES = {
    each.value: f"HTTP/1.1 {each.value} {each.phrase}\r\n".encode() for each in HTTPStatus
}


class Response(NamedTuple):
    """What goes back."""

    status: int
    headers: Headers
    body: bytes


class RequestIds:
    """Ids that look like uuids: random for the process, counted within it."""

    def __init__(self) -> None:
        start = secrets.token_hex(10)
        self._start = f"{start[:8]}-{start[8:12]}-4{start[13:16]}-a{start[17:20]}-"
        self._numbers = itertools.count(secrets.randbits(40))

    def next(self) -> str:
        return f"{self._start}{next(self._numbers):012x}"


def success(protocol: Protocol, request_id: str, body: bytes) -> Response:
    """The answer to a request that was carried out."""
    return Response(200, _headers(protocol, request_id, len(body)), body)


def refusal(fault: Fault, protocol: Protocol, request_id: str) -> Response:
    """The answer to one that was not."""
    if protocol is Protocol.JSON:
        body = json.write_fault(fault)
    else:
        body = query_xml.write_fault(fault, request_id)
    headers = _headers(protocol, request_id, len(body))
    kind = "Sender" if fault.is_senders else "Receiver"
    headers.append((b"x-amzn-query-error", f"{fault.query_code};{kind}".encode()))
    return Response(fault.status, headers, body)


def written(response: Response, more: Headers, *, closes: bool) -> bytes:
    """The bytes of a response, with more headers."""
    pieces = [_STATUS_LINES[response.status]]
    for name, value in (*more, *response.headers):
        pieces += (name, b": ", value, b"\r\n")
    if closes:
        pieces.append(b"connection: close\r\n")
    pieces += (b"\r\n", response.body)
    return b"".join(pieces)


def _headers(protocol: Protocol, request_id: str, length: int) -> Headers:
    kind = json.CONTENT_TYPE if protocol is Protocol.JSON else query_xml.CONTENT_TYPE
    return [
        (b"content-type", kind),
        (b"content-length", b"%d" % length),
        (b"x-amzn-requestid", request_id.encode()),
    ]
