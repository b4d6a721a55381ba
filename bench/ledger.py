"""Keeps the contestants honest: every message delivered once to every queue."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


class DeliveryError(Exception):
    """A contestant lost a message or delivered it twice: its figures mean nothing."""


@dataclass
class Ledger:
    delivered: dict[int, set[int]] = field(default_factory=dict)

    def note(self, numbers: Iterable[int], queue: int = 0) -> None:
        seen = self.delivered.setdefault(queue, set())
        for number in numbers:
            if number in seen:
                raise DeliveryError(f"message {number} was delivered twice to queue {queue}")
            seen.add(number)

    def count(self, queue: int = 0) -> int:
        return len(self.delivered.get(queue, ()))
