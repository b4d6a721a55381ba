"""The messages: numbered, alike in size for every contestant."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Bytes of JSON per message, about that of an order event.
PAYLOAD_BYTES = 200


@dataclass(frozen=True)
class Payload:
    number: int
    size: int = PAYLOAD_BYTES
    #: Messages of one key keep their order, where the queue does; 0: no keys.
    keys: int = 0

    @property
    def key(self) -> str | None:
        return f"key-{self.number % self.keys}" if self.keys else None

    @cached_property
    def document(self) -> dict[str, object]:
        core: dict[str, object] = {
            "n": self.number,
            "order": f"order-{self.number:010d}",
            "customer": f"customer-{self.number % 1000:04d}",
            "amount": self.number % 997,
        }
        room = self.size - len(json.dumps(core)) - len(', "note": ""')
        return core | {"note": "x" * max(0, room)}

    @cached_property
    def text(self) -> str:
        return json.dumps(self.document)


@dataclass
class Stream:
    """Hands out payloads, each number once."""

    size: int = PAYLOAD_BYTES
    keys: int = 0
    following: int = 0

    def take(self, count: int) -> list[Payload]:
        first, self.following = self.following, self.following + count
        return [Payload(number, self.size, self.keys) for number in range(first, first + count)]

    def batches(self, count: int, size: int) -> Iterator[list[Payload]]:
        while count > 0:
            yield self.take(min(size, count))
            count -= size
