"""Signed requests with one bit changed: does anything get through that means something else?"""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from typing import TYPE_CHECKING

from prove.attack.sqs_samples import REQUESTS
from prove.attack.wire import (
    Line,
    Reply,
    as_bytes,
    form_of,
    form_request,
    json_request,
    presigned_request,
)

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator

    from penstock.sqs.auth.access_keys import AccessKey

LINES = 24
# What a request hears that nobody was found to have signed, or that is no request at all.
REFUSALS = frozenset(
    {
        "BadRequest",
        "IncompleteSignature",
        "InvalidAction",
        "InvalidClientTokenId",
        "MalformedInput",
        "MethodNotAllowed",
        "MissingAuthenticationToken",
        "RequestEntityTooLarge",
        "RequestHeaderFieldsTooLarge",
        "RequestTimeout",
        "SignatureDoesNotMatch",
        "UnknownOperationException",
        "UnsupportedMediaType",
    }
)
_ESCAPE = re.compile(rb"%[0-9a-fA-F]{2}")


def signed_requests(url: str, key: AccessKey) -> dict[str, bytes]:
    """Each action as JSON, as a form, and as a presigned URL."""
    found = {}
    for action, request in REQUESTS.items():
        form = form_of(action, request)
        found[f"{action} json"] = as_bytes(
            json_request(url, action, json.dumps(request).encode(), key)
        )
        found[f"{action} form"] = as_bytes(form_request(url, form, key))
        found[f"{action} presigned"] = as_bytes(presigned_request(url, form.decode(), key))
    return found


def accepted(reply: Reply) -> bool:
    """Whether the server took it for signed, whatever it thought of its content."""
    return reply.status > 0 and reply.code not in REFUSALS


def flipped(data: bytes, luck: random.Random) -> bytes:
    place = luck.randrange(len(data))
    return data[:place] + bytes([data[place] ^ 1 << luck.randrange(8)]) + data[place + 1 :]


def meaning(data: bytes) -> object:
    """What of a request must not change: all that is signed, in the forms that HTTP calls equal."""
    head, _, body = data.partition(b"\r\n\r\n")
    first, *lines = head.split(b"\r\n")
    method, target, *_ = [*first.split(b" "), b""]
    headers = {}
    for line in lines:
        name, _, value = line.partition(b":")
        headers[name.lower()] = value.strip()
    authorization = headers.get(b"authorization", b"")
    # A presigned URL covers the host alone.
    covered = re.search(rb"SignedHeaders=([^,]*)", authorization)
    names = covered[1].split(b";") if covered else [b"host"]
    kept = tuple((name, headers.get(name)) for name in names)
    return method, _ESCAPE.sub(lambda x: x[0].upper(), target), authorization, kept, body


class Forger:
    """Sends changed requests and counts what is accepted."""

    def __init__(self, url: str, key: AccessKey, luck: random.Random) -> None:
        self.url, self.key, self.luck = url, key, luck
        self.requests: dict[str, bytes] = {}
        self.counts: Counter[str] = Counter()
        self.wrong: list[tuple[str, bytes, Reply]] = []

    async def forge(self, count: int) -> None:
        self._sign()
        await self._undamaged()
        source = self._forgeries(count)
        await asyncio.gather(*(self._drain(source) for _ in range(LINES)))

    def _sign(self) -> None:
        self.requests = signed_requests(self.url, self.key)

    async def _undamaged(self) -> None:
        """What is signed right is accepted: else the rest would prove nothing."""
        line = Line(self.url)
        for name, data in self.requests.items():
            if accepted(await line.once(data)):
                self.counts["undamaged accepted"] += 1
            else:
                self.wrong.append((f"refused: {name}", data, Reply(0)))

    def _forgeries(self, count: int) -> Iterator[tuple[str, bytes, bytes]]:
        for number in range(count):
            if number % 2000 == 0:
                # A signature is good for a quarter of an hour, a presigned URL for a minute.
                self._sign()
            name = self.luck.choice(list(self.requests))
            data = self.requests[name]
            yield name, data, flipped(data, self.luck)

    async def _drain(self, source: Iterator[tuple[str, bytes, bytes]]) -> None:
        line = Line(self.url)
        for name, data, forged in source:
            reply = await line.once(forged)
            self.counts["forged"] += 1
            self.counts[name.split(" ")[1]] += 1
            if reply.status == 0:
                self.counts["hangs"] += 1
            if not accepted(reply):
                self.counts["refused"] += 1
            elif meaning(forged) == meaning(data):
                self.counts["meaning unchanged"] += 1
            else:
                self.wrong.append((name, forged, reply))
