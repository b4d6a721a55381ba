"""Requests as bytes on a socket, signed with botocore, and what the server answers."""

from __future__ import annotations

import asyncio
import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from tests.sqs.raw import JSON, Raw, presigned, sign

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.sqs.auth.access_keys import AccessKey

FORM = "application/x-www-form-urlencoded"
# Longer than any request may take here: every database call of the server ends before.
PATIENCE_SECONDS = 60.0
_LENGTH = re.compile(rb"content-length: (\d+)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer; status 0: none came within the time, -1: the server hung up."""

    status: int
    code: str = ""
    body: bytes = b""


def json_request(url: str, action: str, body: bytes, key: AccessKey) -> Raw:
    headers = {"x-amz-target": f"AmazonSQS.{action}", "content-type": JSON}
    return sign(Raw(url, headers=headers, body=body), key)


def form_request(url: str, body: bytes, key: AccessKey, target: str = "/") -> Raw:
    return sign(Raw(url, target=target, headers={"content-type": FORM}, body=body), key)


def presigned_request(url: str, query: str, key: AccessKey) -> Raw:
    return presigned(url, query, key)


def as_bytes(made: Raw) -> bytes:
    """The request as it goes over the socket."""
    host = urlsplit(made.url).netloc
    head = [f"{made.method} {made.target} HTTP/1.1", f"host: {host}"]
    head += [f"{name}: {value}" for name, value in made.headers.items()]
    if made.method != "GET":
        head.append(f"content-length: {len(made.body)}")
    return "\r\n".join([*head, "", ""]).encode("latin-1") + made.body


def form_of(action: str, request: Any) -> bytes:
    """A JSON request in the query protocol's way, as far as it has one."""
    pairs = [("Action", action), *_flat("", request)]
    return "&".join(f"{_quoted(name)}={_quoted(value)}" for name, value in pairs).encode()


def _quoted(text: str) -> str:
    return quote(text.encode("utf-8", "surrogatepass"), safe="")


def _flat(prefix: str, value: Any) -> Iterable[tuple[str, str]]:
    match value:
        case dict() if not prefix:
            for name, inner in value.items():
                yield from _flat(name.removesuffix("s"), inner)
        case dict() if all(isinstance(each, str) for each in value.values()):
            for number, (name, inner) in enumerate(value.items(), start=1):
                yield f"{prefix}.{number}.Name", name
                yield f"{prefix}.{number}.Value", inner
        case dict():
            for name, inner in value.items():
                yield from _flat(f"{prefix}.{name}", inner)
        case list():
            for number, inner in enumerate(value, start=1):
                yield from _flat(f"{prefix}.{number}", inner)
        case str():
            yield prefix, value
        case _:
            yield prefix, json.dumps(value)


class Line:
    """One client's connection, opened anew when the server has closed it."""

    def __init__(self, url: str) -> None:
        place = urlsplit(url)
        self._host, self._port = place.hostname, place.port
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def ask(self, data: bytes, patience: float = PATIENCE_SECONDS) -> Reply:
        """Send a request, await its answer."""
        try:
            async with asyncio.timeout(patience):
                return await self._ask(data)
        except TimeoutError:
            self.close()
            return Reply(0)
        except (OSError, asyncio.IncompleteReadError):
            self.close()
            return Reply(-1)

    async def once(self, data: bytes, patience: float = PATIENCE_SECONDS) -> Reply:
        """On a connection of its own: nothing left over reaches the next request."""
        reply = await self.ask(data, patience)
        self.close()
        return reply

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
        self._reader = self._writer = None

    async def _ask(self, data: bytes) -> Reply:
        if self._writer is None:
            self._reader, self._writer = await asyncio.open_connection(self._host, self._port)
        assert self._reader is not None
        self._writer.write(data)
        head = await self._reader.readuntil(b"\r\n\r\n")
        while head.startswith(b"HTTP/1.1 100"):
            head = await self._reader.readuntil(b"\r\n\r\n")
        length = _LENGTH.search(head)
        body = await self._reader.readexactly(int(length[1])) if length else b""
        if b"connection: close" in head.lower():
            self.close()
        return Reply(int(head.split(b" ", 2)[1]), _code(head, body), body)


_QUERY_ERROR = re.compile(rb"x-amzn-query-error: ([^;\r]*)", re.IGNORECASE)
_XML_CODE = re.compile(rb"<Code>([^<]*)</Code>|^<(\w+)/>")


def _code(head: bytes, body: bytes) -> str:
    found = _QUERY_ERROR.search(head)
    if found is not None:
        return found[1].decode()
    xml = _XML_CODE.search(body)
    return (xml[1] or xml[2]).decode() if xml else ""
