"""uvicorn's HTTP protocol with two more limits: a deadline and a size for a request's head.

A client that opens a connection and says nothing, or a header for ever, would hold it for ever.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

if TYPE_CHECKING:
    import asyncio

LONGEST_HEAD = 64 * 1024
_TIMEOUT = b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
_TOO_LONG = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\n"
    b"content-length: 0\r\n\r\n"
)


def limited(deadline: float) -> type[HttpToolsProtocol]:
    """The protocol with this deadline for heads, in seconds."""
    return type("LimitedProtocol", (_LimitedProtocol,), {"deadline": deadline})


class _LimitedProtocol(HttpToolsProtocol):
    deadline = 10.0
    _head_timer: asyncio.TimerHandle | None = None
    _head_bytes = 0
    _in_head = True

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._head_done()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._in_head:
            if self._head_timer is None:
                self._expect_head()
            self._head_bytes += len(data)
        super().data_received(data)
        # A body in the same piece has ended the head by now.
        if self._in_head and self._head_bytes > LONGEST_HEAD:
            self._refuse(_TOO_LONG)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_head = True

    def on_headers_complete(self) -> None:
        self._head_done()
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._in_head = True
        self._head_bytes = 0

    def _expect_head(self) -> None:
        self._head_timer = self.loop.call_later(self.deadline, self._refuse, _TIMEOUT)

    def _head_done(self) -> None:
        self._in_head = False
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _refuse(self, answer: bytes) -> None:
        self._head_timer = None
        if not self.transport.is_closing():
            self.transport.write(answer)
            self.transport.close()
