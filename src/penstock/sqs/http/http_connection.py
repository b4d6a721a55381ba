"""HTTP/1.1: httptools reads, the gateway answers, one write a response.

There is no ASGI in between: its dictionaries and events would cost as much as all the rest of a
request.  uvicorn still runs the loop, the sockets, TLS and the stop; to it this is one of its HTTP
protocols.
"""

from __future__ import annotations

import asyncio
from collections import deque
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import httptools

from penstock.sqs.http.application import PAGES
from penstock.sqs.protocol import faults

if TYPE_CHECKING:
    from collections.abc import Callable

    from uvicorn import Config
    from uvicorn.server import ServerState

    from penstock.sqs.http.application import Application
    from penstock.sqs.http.gateway import Headers, Response
    from penstock.sqs.protocol.faults import Fault

LONGEST_HEAD = 64 * 1024
# A client may send the next requests before it has its answers, but not without end.
_MOST_WAITING = 16
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
_STATUS_LINES = {
    each.value: f"HTTP/1.1 {each.value} {each.phrase}\r\n".encode() for each in HTTPStatus
}


class _Arrived(NamedTuple):
    """A request that is here, or what is wrong with it."""

    method: str
    target: str
    headers: Headers
    body: bytes
    keeps_alive: bool
    fault: Fault | None = None


def connections(application: Application) -> type[asyncio.Protocol]:
    """The protocol of one application, as uvicorn wants it: a class."""
    return type("ApplicationConnection", (Connection,), {"application": application})


class Connection(asyncio.Protocol):
    """One client's connection: its requests are answered one after another, in their order."""

    application: Application

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        del config, app_state
        self._loop = _loop or asyncio.get_running_loop()
        self._state = server_state
        self._parser: Any = httptools.HttpRequestParser(self)
        self._waiting: deque[_Arrived] = deque()
        self._task: asyncio.Task[None] | None = None
        self._hangup: asyncio.Future[None] | None = None
        self._closing = False
        """Nothing is read any more; what has arrived is still answered."""
        self._may_write = True
        options = self.application.options
        self._head_seconds = options.header_deadline.total_seconds()
        self._body_seconds = options.body_deadline.total_seconds()
        self._idle_seconds = options.idle_deadline.total_seconds()
        self._deadline = Deadline(
            self._loop, min(self._head_seconds, self._body_seconds, self._idle_seconds)
        )
        self._head_bytes = 0
        self._in_head = False
        self._begin()

    # Of the transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are not asyncio's by descent.
        self._transport = cast("asyncio.Transport", transport)
        peer = transport.get_extra_info("peername")
        self._client: str | None = peer[0] if isinstance(peer, tuple) else None
        self._scheme = "https" if transport.get_extra_info("sslcontext") else "http"
        self._state.connections.add(self)  # type: ignore[arg-type]
        self._deadline.set(self._head_seconds, self._too_slow)

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self._state.connections.discard(self)
        self._closing = True
        self._waiting.clear()
        self._parser = None
        self._deadline.end()
        if self._hangup is not None and not self._hangup.done():
            self._hangup.set_result(None)

    def data_received(self, data: bytes) -> None:
        if self._closing:
            return
        if not self._in_head and self._size < 0:
            self._in_head = True
            self._deadline.set(self._head_seconds, self._too_slow)
        self._head_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            # The request is answered as if it had not asked for another protocol.
            self._closing = True
        except httptools.HttpParserError:
            self._refuse(faults.broken_http())
        # A body in the same piece has ended the head by now.
        if self._in_head and self._head_bytes > LONGEST_HEAD:
            self._refuse(faults.long_head())

    def pause_writing(self) -> None:
        self._may_write = False

    def resume_writing(self) -> None:
        self._may_write = True
        self._next()

    # Of the parser

    def on_url(self, url: bytes) -> None:
        self._target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._size = 0
        self._deadline.set(self._body_seconds, self._too_slow)
        for name, value in self._headers:
            if name == b"content-length" and int(value) > self.application.options.largest_body:
                self._refuse(faults.too_large(self.application.options.largest_body))
            elif name == b"expect" and value.lower() == b"100-continue" and not self._closing:
                self._transport.write(_CONTINUE)

    def on_body(self, body: bytes) -> None:
        if self._closing:
            return
        self._size += len(body)
        if self._size > self.application.options.largest_body:
            self._refuse(faults.too_large(self.application.options.largest_body))
        else:
            self._pieces.append(body)

    def on_message_complete(self) -> None:
        if self._closing:
            return
        pieces = self._pieces
        arrived = _Arrived(
            self._parser.get_method().decode("latin-1"),
            self._target.decode("latin-1"),
            self._headers,
            pieces[0] if len(pieces) == 1 else b"".join(pieces),
            self._parser.should_keep_alive() and self._parser.get_http_version() != "1.0",
        )
        self._begin()
        self._deadline.unset()
        self._arrive(arrived)

    # Of the server

    def shutdown(self) -> None:
        """Close as soon as everything that has arrived is answered."""
        self._closing = True
        if self._task is None:
            self._transport.close()

    # Our own

    def _begin(self) -> None:
        """Be ready for the next request."""
        self._target = b""
        self._headers: Headers = []
        self._pieces: list[bytes] = []
        self._size = -1
        self._head_bytes = 0
        self._in_head = False

    def _arrive(self, request: _Arrived) -> None:
        self._waiting.append(request)
        if self._task is None:
            self._next()
        elif len(self._waiting) == _MOST_WAITING:
            self._transport.pause_reading()

    def _refuse(self, fault: Fault) -> None:
        """Answer what was not read to its end; the rest must not be taken for the next request."""
        if not self._closing:
            self._closing = True
            self._deadline.unset()
            self._arrive(_Arrived("", "", self._headers, b"", keeps_alive=False, fault=fault))

    def _next(self) -> None:
        if self._task is not None or not self._may_write:
            return
        if self._waiting:
            if len(self._waiting) == _MOST_WAITING:
                self._transport.resume_reading()
            self._task = self._loop.create_task(self._serve(self._waiting.popleft()))
            self._state.tasks.add(self._task)
        elif self._closing:
            self._transport.close()
        elif not self._deadline.is_set:
            self._deadline.set(self._idle_seconds, self._transport.close)

    async def _serve(self, request: _Arrived) -> None:
        try:
            response = await self._response(request)
            if not request.keeps_alive:
                self._closing = True
                self._waiting.clear()
            self._write(request, response)
        finally:
            if self._task is not None:
                self._state.tasks.discard(self._task)
            self._task = None
            self._state.total_requests += 1
            if self._parser is not None:
                self._next()

    async def _response(self, request: _Arrived) -> Response:
        if request.fault is not None:
            return self.application.gateway.refuse(request.fault, request.headers)
        if request.method == "GET" and request.target in PAGES:
            return await self.application.page(request.target)
        return await self.application.gateway.handle(
            request.method,
            request.target,
            request.headers,
            request.body,
            scheme=self._scheme,
            client=self._client,
            gone=self._gone,
        )

    def _write(self, request: _Arrived, response: Response) -> None:
        if self._transport.is_closing():
            return
        shown = _written(
            response, self._state.default_headers, closes=self._closing and not self._waiting
        )
        if request.method == "HEAD":
            shown = shown[: len(shown) - len(response.body)]
        self._transport.write(shown)

    def _gone(self) -> asyncio.Future[None]:
        """Done when the client has hung up."""
        self._hangup = self._loop.create_future()
        if self._parser is None:
            self._hangup.set_result(None)
        return self._hangup

    def _too_slow(self) -> None:
        self._refuse(faults.too_slow())


class Deadline:
    """A deadline that moves with every step of a request.

    One timer for each connection looks at the clock from time to time: to set and cancel a timer in
    each step would be work on every request for what nearly never happens.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, shortest: float) -> None:
        self._loop = loop
        self._shortest = shortest
        self._due: float | None = None
        self._overdue: Callable[[], None] | None = None
        self._timer = loop.call_later(shortest, self._look)

    @property
    def is_set(self) -> bool:
        return self._due is not None

    def set(self, seconds: float, overdue: Callable[[], None]) -> None:
        """From now on; no deadline is shorter than the shortest."""
        self._due = self._loop.time() + seconds
        self._overdue = overdue

    def unset(self) -> None:
        self._due = None

    def end(self) -> None:
        self._due = None
        self._timer.cancel()

    def _look(self) -> None:
        now, pause = self._loop.time(), self._shortest
        if self._due is not None:
            if self._due <= now:
                self._due = None
                if self._overdue is not None:
                    self._overdue()
            else:
                pause = min(pause, self._due - now)
        self._timer = self._loop.call_later(pause, self._look)


def _written(response: Response, more: Headers, *, closes: bool) -> bytes:
    """The bytes of a response, with more headers."""
    pieces = [_STATUS_LINES[response.status]]
    for name, value in (*more, *response.headers):
        pieces += (name, b": ", value, b"\r\n")
    if closes:
        pieces.append(b"connection: close\r\n")
    pieces += (b"\r\n", response.body)
    return b"".join(pieces)
