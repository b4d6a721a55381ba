"""Requests that are small to send and large to serve, and clients that take their time."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections import Counter
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import psutil

from prove.attack.wire import Line, as_bytes, form_request, json_request
from tests.sqs.raw import Raw, unsigned

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from penstock.sqs.auth.access_keys import AccessKey

MIB = 1024 * 1024
# A few large requests at once: what one may hold is bounded, how many come is not ours to say.
_AT_ONCE = 4
_LARGE = 7 * MIB
_LOOK_SECONDS = 0.05


class Memory:
    """The most that a process has had in memory."""

    def __init__(self, pid: int) -> None:
        self._process = psutil.Process(pid)
        self.before = self.now()
        self.peak = self.before

    def now(self) -> float:
        return self._process.memory_info().rss / MIB

    async def watch(self) -> None:
        while True:
            with suppress(psutil.NoSuchProcess):
                self.peak = max(self.peak, self.now())
            await asyncio.sleep(_LOOK_SECONDS)


class Regular:
    """An honest client: is it served while others attack?"""

    def __init__(self, url: str, key: AccessKey) -> None:
        self.url, self.key = url, key
        self.served = 0
        self.failed = 0

    async def go_on(self) -> None:
        line = Line(self.url)
        while True:
            for action, more in (("SendMessage", {"MessageBody": "x"}), ("ReceiveMessage", {})):
                body = json.dumps({"QueueUrl": "regular", **more}).encode()
                reply = await line.ask(as_bytes(json_request(self.url, action, body, self.key)))
                if reply.status == 200:
                    self.served += 1
                else:
                    self.failed += 1
            await asyncio.sleep(0.02)


class Bomber:
    """Each attack by its name; what the attackers were answered is counted."""

    def __init__(self, url: str, key: AccessKey, other: AccessKey, size: int) -> None:
        self.url, self.key, self.other, self.size = url, key, other, size
        self.statuses: Counter[int] = Counter()
        self.kept = 0
        """Slow clients that nobody hung up on."""

    @property
    def attacks(self) -> dict[str, Callable[[], Awaitable[None]]]:
        return {
            "packed bodies": self.packed,
            "deep nesting": self.deep,
            "texts without end": self.texts,
            "many members": self.members,
            "many parameters": self.parameters,
            "long heads": self.heads,
            "endless bodies": self.endless,
            "long addresses": self.addresses,
            "long announcements": self.announcements,
            "many regions": self.regions,
            "policies of stars": self.stars,
            "answers that nobody reads": self.unread,
            "slow clients": self.slow,
        }

    async def packed(self) -> None:
        bomb = gzip.compress(bytes(50 * MIB))
        made = []
        for _ in range(self.size):
            each = unsigned(self.url, "SendMessage", bomb)
            each.headers["content-encoding"] = "gzip"
            made.append(as_bytes(each))
        await self._send(made)

    async def deep(self) -> None:
        for piece in (b"[", b'{"a":', b'[{"x":'):
            body = b'{"QueueUrl": ' + piece * (_LARGE // len(piece))
            await self._send([as_bytes(json_request(self.url, "SendMessage", body, self.key))] * 3)

    async def texts(self) -> None:
        """A text that never ends, full of quotes from which a search may begin anew."""
        body = b'{"QueueUrl": "q", "x": ' + b"[]" * 40 + b', "y": "' + b'\\"' * (_LARGE // 2)
        await self._send([as_bytes(json_request(self.url, "SendMessage", body, self.key))] * 3)

    async def members(self) -> None:
        many = b",".join(b'"k%d":1' % number for number in range(400_000))
        body = b'{"QueueUrl": "q", "MessageBody": "x", ' + many + b"}"
        tags = b'{"QueueUrl": "q", "Tags": {' + many.replace(b":1", b':"1"') + b"}}"
        for action, data in (("SendMessage", body), ("TagQueue", tags)):
            request = as_bytes(json_request(self.url, action, data[: 8 * MIB - 1], self.key))
            await self._send([request] * 3)

    async def parameters(self) -> None:
        body = b"Action=SendMessage&QueueUrl=q" + b"".join(
            b"&MessageAttribute.%d.Name=a" % number for number in range(200_000)
        )
        await self._send([as_bytes(form_request(self.url, body, self.key))] * 4)

    async def heads(self) -> None:
        made = Raw(self.url, headers={"x-long": "x" * 300_000})
        await self._send([as_bytes(made)] * self.size, most=50)

    async def endless(self) -> None:
        """A body that says it is huge, and one in pieces that never says how long it is."""
        head = b"POST / HTTP/1.1\r\nhost: x\r\nx-amz-target: AmazonSQS.SendMessage\r\n"
        await self._send([head + b"content-length: 99999999999\r\n\r\n"] * self.size)
        chunk = b"100000\r\n" + bytes(MIB) + b"\r\n"
        chunked = head + b"transfer-encoding: chunked\r\n\r\n"
        await asyncio.gather(*(self._pour(chunked, chunk, 120) for _ in range(_AT_ONCE)))

    async def _pour(self, head: bytes, piece: bytes, count: int) -> None:
        reader, writer = await self._opened()
        try:
            writer.write(head)
            for _ in range(count):
                writer.write(piece)
                await writer.drain()
        except OSError:
            pass
        await self._hear(reader, writer)

    async def addresses(self) -> None:
        """Queue URLs of megabytes, no two alike: nothing may remember them."""
        made = []
        for number in range(self.size):
            body = json.dumps({"QueueUrl": f"{number}{'x' * (2 * MIB)}"}).encode()
            made.append(as_bytes(json_request(self.url, "ListQueueTags", body, self.key)))
            if len(made) == _AT_ONCE:
                await self._send(made)
                made = []

    async def announcements(self) -> None:
        """Signed headers by the thousand, of a signer whom nobody knows."""
        for first in range(0, self.size * 10, 50):
            made = []
            for number in range(first, first + 50):
                names = ";".join(f"h{number}x{each}" for each in range(5000))
                request = unsigned(self.url, "ListQueues", b"{}")
                request.headers["authorization"] = (
                    f"AWS4-HMAC-SHA256 Credential={self.key.access_key}/20260101/r/sqs/aws4_request"
                    f", SignedHeaders={names}, Signature=0"
                )
                request.headers["x-amz-date"] = "20260101T000000Z"
                made.append(as_bytes(request))
            await self._send(made)

    async def regions(self) -> None:
        made = []
        for number in range(self.size * 10):
            request = unsigned(self.url, "ListQueues", b"{}")
            request.headers["authorization"] = (
                f"AWS4-HMAC-SHA256 Credential={self.key.access_key}/20260101/{number}{'r' * 30_000}"
                f"/sqs/aws4_request, SignedHeaders=host, Signature={'0' * 64}"
            )
            request.headers["x-amz-date"] = "20260101T000000Z"
            made.append(as_bytes(request))
        await self._send(made)

    async def stars(self) -> None:
        """A policy whose pattern a backtracking matcher would chew on for years."""
        pattern = "*" + "a*" * 30 + "b"
        statement = {"Effect": "Allow", "Principal": "*", "Action": "*", "Resource": pattern}
        policy = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
        attributes = {"QueueUrl": "q" + "a" * 79, "Attributes": {"Policy": policy}}
        line = Line(self.url)
        for action, request, key in (
            ("CreateQueue", {"QueueName": attributes["QueueUrl"]}, self.key),
            ("SetQueueAttributes", attributes, self.key),
            (
                "SendMessage",
                {
                    "QueueUrl": f"/{self.key.account}/{attributes['QueueUrl']}",
                    "MessageBody": "x",
                },
                self.other,
            ),
        ):
            data = as_bytes(json_request(self.url, action, json.dumps(request).encode(), key))
            self.statuses[(await line.ask(data)).status] += 1
        line.close()

    async def unread(self) -> None:
        """Requests by the hundred on one connection, and nobody who reads the answers."""
        body = json.dumps({"QueueUrl": "q", "MessageBody": "x" * 200_000}).encode()
        fill = as_bytes(json_request(self.url, "SendMessage", body, self.key))
        await self._send([fill] * 10)
        wanted = {"QueueUrl": "q", "MaxNumberOfMessages": 10, "VisibilityTimeout": 0}
        receive = json_request(self.url, "ReceiveMessage", json.dumps(wanted).encode(), self.key)
        async with self._sockets(10) as lines:
            for _, writer in lines:
                writer.write(as_bytes(receive) * 200)
            await asyncio.sleep(5)

    async def slow(self) -> None:
        """Heads and bodies a byte at a time, and silence."""
        head = b"POST / HTTP/1.1\r\nhost: x\r\nx-amz-target: AmazonSQS.ListQueues\r\n"
        body = head + b"content-length: 100000\r\n\r\n{"
        kinds = [b"", head, body]
        async with self._sockets(self.size * 3) as lines:
            for number, (_, writer) in enumerate(lines):
                writer.write(kinds[number % len(kinds)])
            ends = [
                asyncio.create_task(self._drip(*line, number % len(kinds) != 0))
                for number, line in enumerate(lines)
            ]
            # The server's longest patience, and then some.
            done, waiting = await asyncio.wait(ends, timeout=45)
            for task in waiting:
                task.cancel()
            self.kept += len(waiting)
            del done

    async def _drip(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        talks: bool,  # noqa: FBT001
    ) -> None:
        answer = asyncio.create_task(reader.read(100))
        while not answer.done():
            if talks:
                with suppress(OSError):
                    writer.write(b"x")
            await asyncio.wait([answer], timeout=1)
        with suppress(OSError):
            data = answer.result()
            self.statuses[int(data.split(b" ")[1]) if data else -1] += 1

    async def _send(self, made: list[bytes], most: int = _AT_ONCE) -> None:
        source = iter(made)

        async def drain() -> None:
            line = Line(self.url)
            for data in source:
                self.statuses[(await line.once(data)).status] += 1

        await asyncio.gather(*(drain() for _ in range(most)))

    async def _opened(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        place = urlsplit(self.url)
        return await asyncio.open_connection(place.hostname, place.port)

    async def _hear(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(10):
                data = await reader.read(100)
        except (OSError, TimeoutError):
            data = b""
        self.statuses[int(data.split(b" ")[1]) if data.startswith(b"HTTP") else -1] += 1
        writer.close()

    @asynccontextmanager
    async def _sockets(
        self, count: int
    ) -> AsyncIterator[list[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]:
        lines = [await self._opened() for _ in range(count)]
        try:
            yield lines
        finally:
            for _, writer in lines:
                writer.close()
