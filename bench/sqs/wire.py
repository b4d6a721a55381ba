"""A client that costs little: keep-alive sockets, requests written by hand, answers read by length.

boto3 spends about a millisecond of CPU on a call, more than most servers need to answer it; with it
one would measure boto3.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import time
import typing
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, cast
from urllib.parse import urlsplit

import msgspec

from penstock.sqs.auth.authentication import signing_key

_REGION = "us-east-1"
_SIGNED = "content-type;host;x-amz-date;x-amz-target"
_JSON = "application/x-amz-json-1.0"


@dataclass(frozen=True, slots=True)
class Credentials:
    """Whom requests are signed for; peers that check nothing get a made-up signature."""

    access_key: str
    secret: str | None


@lru_cache(maxsize=2)
def _date(second: int) -> str:
    return datetime.fromtimestamp(second, UTC).strftime("%Y%m%dT%H%M%SZ")


class Signer:
    """Writes requests, signed in full where the server checks."""

    def __init__(self, url: str, credentials: Credentials) -> None:
        self._host = urlsplit(url).netloc
        self._credentials = credentials
        self._day = ""
        self._key = b""

    def request(self, action: str, body: bytes) -> bytes:
        """The bytes of one request."""
        now = _date(int(time.time()))
        target = f"AmazonSQS.{action}"
        scope = f"{now[:8]}/{_REGION}/sqs/aws4_request"
        authorization = (
            f"AWS4-HMAC-SHA256 Credential={self._credentials.access_key}/{scope}, "
            f"SignedHeaders={_SIGNED}, Signature={self._signature(now, scope, target, body)}"
        )
        return (
            f"POST / HTTP/1.1\r\nhost: {self._host}\r\ncontent-type: {_JSON}\r\n"
            f"x-amz-date: {now}\r\nx-amz-target: {target}\r\nauthorization: {authorization}\r\n"
            f"content-length: {len(body)}\r\n\r\n"
        ).encode() + body

    def _signature(self, now: str, scope: str, target: str, body: bytes) -> str:
        if self._credentials.secret is None:
            return "0" * 64
        if self._day != now[:8]:
            self._day = now[:8]
            self._key = signing_key(self._credentials.secret, self._day, _REGION, "sqs")
        canonical = (
            f"POST\n/\n\ncontent-type:{_JSON}\nhost:{self._host}\nx-amz-date:{now}\n"
            f"x-amz-target:{target}\n\n{_SIGNED}\n{hashlib.sha256(body).hexdigest()}"
        )
        digest = hashlib.sha256(canonical.encode()).hexdigest()
        text = f"AWS4-HMAC-SHA256\n{now}\n{scope}\n{digest}"
        return hmac.digest(self._key, text.encode(), "sha256").hex()


class Protocol(typing.Protocol):
    """How requests are written and answers read."""

    def request(self, action: str, given: dict[str, Any]) -> bytes: ...

    def answer(self, body: bytes) -> dict[str, Any]: ...


class Json:
    """The protocol that SDKs speak now."""

    def __init__(self, url: str, credentials: Credentials) -> None:
        self._signer = Signer(url, credentials)

    def request(self, action: str, given: dict[str, Any]) -> bytes:
        return self._signer.request(action, msgspec.json.encode(given))

    def answer(self, body: bytes) -> dict[str, Any]:
        return msgspec.json.decode(body, type=dict[str, Any]) if body else {}


class Failed(Exception):
    """A server answered with something else than 200."""


class Connection(asyncio.Protocol):
    """One socket, one request at a time."""

    def __init__(self) -> None:
        self.closed = False
        self.lost = asyncio.Event()
        self._transport: asyncio.Transport | None = None
        self._buffer = bytearray()
        self._answer: asyncio.Future[bytes] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are not asyncio's by descent.
        self._transport = cast("asyncio.Transport", transport)
        self.closed = False
        self.lost.clear()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        self._look()

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed = True
        self.lost.set()
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(exc or Failed("the server closed the connection"))

    def ask(self, request: bytes) -> asyncio.Future[bytes]:
        assert self._transport is not None
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return self._answer

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def _look(self) -> None:
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0 or self._answer is None:
            return
        head = bytes(self._buffer[:end]).lower()
        if b"transfer-encoding: chunked" in head:
            done, body, rest = _chunks(self._buffer, end + 4)
            if not done:
                return
        else:
            place = head.find(b"content-length:")
            length = int(head[place + 15 :].split(b"\r\n", 1)[0]) if place >= 0 else 0
            if len(self._buffer) < end + 4 + length:
                return
            body, rest = bytes(self._buffer[end + 4 : end + 4 + length]), end + 4 + length
        del self._buffer[:rest]
        # Known before the socket's end is heard of.
        self.closed = b"connection: close" in head or head.startswith(b"http/1.0")
        if b" 200 " not in head[:16]:
            self._answer.set_exception(Failed(body[:300].decode(errors="replace")))
        else:
            self._answer.set_result(body)


def _chunks(data: bytearray, start: int) -> tuple[bool, bytes, int]:
    body = b""
    while (line := data.find(b"\r\n", start)) >= 0:
        size = int(data[start:line], 16)
        if len(data) < line + 4 + size:
            break
        body += data[line + 2 : line + 2 + size]
        start = line + 4 + size
        if size == 0:
            return True, body, start
    return False, b"", 0


class Client:
    """Connections to one server, and what was measured on them."""

    def __init__(self, url: str, protocol: Protocol) -> None:
        self._place = urlsplit(url)
        self._protocol = protocol
        self.latencies: list[float] = []

    async def connect(self) -> Connection:
        made = Connection()
        await self._open(made)
        return made

    async def _open(self, connection: Connection) -> None:
        loop = asyncio.get_running_loop()
        host, port = self._place.hostname, self._place.port
        await loop.create_connection(lambda: connection, host, port)

    async def call(self, connection: Connection, action: str, given: dict[str, Any]) -> Any:
        started = time.perf_counter()
        if connection.closed:
            # Some servers close after each answer; what that costs is theirs.
            connection.close()
            await connection.lost.wait()
            await self._open(connection)
        answer = await connection.ask(self._protocol.request(action, given))
        self.latencies.append(time.perf_counter() - started)
        return self._protocol.answer(answer)
