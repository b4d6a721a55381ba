"""HTTP as the door speaks it: order, keep-alive, and what old or cautious clients do."""

from __future__ import annotations

import re
import socket
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.sqs.running import Running

HEALTH = b"GET /health HTTP/1.1\r\nhost: x\r\n\r\n"
UNSIGNED = (
    b"POST / HTTP/1.1\r\nhost: x\r\nx-amz-target: AmazonSQS.ListQueues\r\n"
    b"content-length: 2\r\n\r\n{}"
)


class Wire:
    """One socket, read answer by answer."""

    def __init__(self, door: Running) -> None:
        place = urlsplit(door.url)
        self._socket = socket.create_connection((place.hostname, place.port), timeout=30)
        self._held = b""

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def head(self) -> bytes:
        while b"\r\n\r\n" not in self._held:
            self._more()
        head, self._held = self._held.split(b"\r\n\r\n", 1)
        return head

    def answer(self) -> tuple[int, bytes]:
        """Status and body."""
        head = self.head()
        length = re.search(rb"content-length: (\d+)", head)
        assert length is not None
        while len(self._held) < int(length[1]):
            self._more()
        body, self._held = self._held[: int(length[1])], self._held[int(length[1]) :]
        return int(head.split(b" ")[1]), body

    def is_closed(self) -> bool:
        return not self._held and self._socket.recv(1) == b""

    def close(self) -> None:
        self._socket.close()

    def _more(self) -> None:
        data = self._socket.recv(65536)
        assert data, "the server hung up"
        self._held += data


@pytest.fixture
def wire(door: Running) -> Iterator[Wire]:
    made = Wire(door)
    yield made
    made.close()


def test_requests_sent_ahead_are_answered_in_their_order(wire: Wire) -> None:
    wire.send((HEALTH + UNSIGNED) * 20)
    assert [wire.answer()[0] for _ in range(40)] == [200, 403] * 20


def test_a_connection_is_kept_for_the_next_request(wire: Wire) -> None:
    for piece in (UNSIGNED[:30], UNSIGNED[30:90], UNSIGNED[90:] + UNSIGNED[:10], UNSIGNED[10:]):
        wire.send(piece)
    assert [wire.answer()[0] for _ in range(2)] == [403, 403]


@pytest.mark.parametrize(
    "request_",
    [
        b"GET /health HTTP/1.0\r\nhost: x\r\n\r\n",
        b"GET /health HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n",
    ],
)
def test_a_client_that_wants_no_more_is_let_go(wire: Wire, request_: bytes) -> None:
    wire.send(request_)
    assert wire.answer()[0] == 200
    assert wire.is_closed()


def test_the_answer_to_head_has_no_body(wire: Wire) -> None:
    wire.send(b"HEAD / HTTP/1.1\r\nhost: x\r\n\r\n" + HEALTH)
    assert wire.head().startswith(b"HTTP/1.1 405")
    assert wire.head().startswith(b"HTTP/1.1 200")


def test_a_client_that_asks_first_is_told_to_go_on(wire: Wire) -> None:
    head, body = UNSIGNED[:-2], UNSIGNED[-2:]
    wire.send(head[:-2] + b"expect: 100-continue\r\n\r\n")
    assert wire.head() == b"HTTP/1.1 100 Continue"
    wire.send(body)
    assert wire.answer()[0] == 403


def test_another_protocol_is_not_taken_up(wire: Wire) -> None:
    wire.send(HEALTH[:-2] + b"connection: upgrade\r\nupgrade: h2c\r\n\r\n")
    assert wire.answer()[0] == 200


def test_chunks_are_a_body_too(wire: Wire) -> None:
    head = UNSIGNED.replace(b"content-length: 2\r\n\r\n{}", b"transfer-encoding: chunked\r\n\r\n")
    wire.send(head + b"1\r\n{\r\n" + b"1\r\n}\r\n0\r\n\r\n" + HEALTH)
    assert [wire.answer()[0] for _ in range(2)] == [403, 200]
