"""The door as an ASGI application: bodies read with a cap and a deadline, hang-ups noticed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import TYPE_CHECKING, Any

import msgspec

from penstock.observe.health import health
from penstock.sqs import errors
from penstock.sqs.app import Response
from penstock.sqs.errors import Fault

if TYPE_CHECKING:
    from penstock.sqs.assembly import Door

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


class _HungUp(Exception):
    """The client left before its request was complete."""


class Application:
    """`await application(scope, receive, send)`; opened and closed by the lifespan."""

    def __init__(self, door: Door) -> None:
        self.door = door
        self.problem: Exception | None = None
        """Why it could not be opened."""

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif scope["type"] == "http":
            try:
                response = await self._respond(scope, receive)
            except _HungUp:
                return
            await _send(send, response)

    async def _live(self, receive: Receive, send: Send) -> None:
        await receive()
        try:
            await self.door.open()
        except Exception as problem:  # noqa: BLE001 - the server has to hear why
            self.problem = problem
            await send({"type": "lifespan.startup.failed", "message": ""})
            return
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await self.door.close()
        await send({"type": "lifespan.shutdown.complete"})

    async def _respond(self, scope: Message, receive: Receive) -> Response:
        path = scope["path"]
        if scope["method"] == "GET" and path in ("/health", "/metrics"):
            return await (self._health() if path == "/health" else self._metrics())
        headers = scope["headers"]
        try:
            body = await self._body(headers, receive)
        except Fault as fault:
            refused = self.door.gateway.refuse(fault, headers)
            # What is left of the request must not be taken for the next one.
            refused.headers.append((b"connection", b"close"))
            return refused
        return await self.door.gateway.handle(
            scope["method"],
            _target(scope),
            headers,
            body,
            scheme=scope["scheme"],
            client=_client(scope),
            gone=lambda: _hangup(receive),
        )

    async def _body(self, headers: list[tuple[bytes, bytes]], receive: Receive) -> bytes:
        largest = self.door.options.largest_body
        for name, value in headers:
            if name == b"content-length" and (not value.isdigit() or int(value) > largest):
                raise errors.too_large(largest)
        message = await self._piece(receive)
        if not message.get("more_body", False):
            # Nearly always all of it is there at once.
            whole: bytes = self._fitting(message.get("body", b""))
            return whole
        pieces = bytearray(self._fitting(message.get("body", b"")))
        try:
            async with asyncio.timeout(self.door.options.body_deadline.total_seconds()):
                while message.get("more_body", False):
                    message = await self._piece(receive)
                    pieces += message.get("body", b"")
                    self._fitting(pieces)
        except TimeoutError:
            raise errors.too_slow() from None
        return bytes(pieces)

    async def _piece(self, receive: Receive) -> Message:
        try:
            async with asyncio.timeout(self.door.options.body_deadline.total_seconds()):
                message = await receive()
        except TimeoutError:
            raise errors.too_slow() from None
        if message["type"] == "http.disconnect":
            raise _HungUp
        return message

    def _fitting(self, body: Any) -> Any:
        if len(body) > self.door.options.largest_body:
            raise errors.too_large(self.door.options.largest_body)
        return body

    async def _health(self) -> Response:
        found = await health(self.door.client)
        body = msgspec.json.encode(
            {
                "status": "ok" if found.serving else "failing",
                "checks": {check.name: check.ok for check in found.checks},
            }
        )
        return _plain(200 if found.serving else 503, b"application/json", body)

    async def _metrics(self) -> Response:
        text = self.door.watching.text(self.door.polls.count)
        return _plain(200, b"text/plain; version=0.0.4", text.encode())


async def _send(send: Send, response: Response) -> None:
    await send(
        {
            "type": "http.response.start",
            "status": response.status,
            "headers": response.headers,
        }
    )
    await send({"type": "http.response.body", "body": response.body})


async def _hangup(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _plain(status: int, kind: bytes, body: bytes) -> Response:
    headers = [(b"content-type", kind), (b"content-length", b"%d" % len(body))]
    return Response(status, headers, body)


def _target(scope: Message) -> str:
    # As it was sent: the signature is of those bytes.
    path = scope.get("raw_path") or scope["path"].encode()
    query = scope["query_string"]
    target: bytes = path + b"?" + query if query else path
    return target.decode("latin-1")


def _client(scope: Message) -> str | None:
    return scope["client"][0] if scope.get("client") else None
