"""What actors did, in files that outlive them: one line a step, written at once.

A line is one `write` to a file opened for appending, so a killed actor leaves whole lines, and none
of what it did before is missing.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class Step(StrEnum):
    ATTEMPT = "attempt"
    """About to publish."""
    ACKED = "acked"
    """The publisher was told: stored."""
    UNKNOWN = "unknown"
    """The publisher was told: may or may not be stored."""
    REFUSED = "refused"
    """The publisher was told: not stored."""
    DELIVERED = "delivered"
    """A handler has begun on it."""
    EXTENDED = "extended"
    """A worker has kept as many claims alive."""


@dataclass(frozen=True, slots=True)
class Entry:
    step: Step
    number: int
    """How many, or the payload: which message it is, as the publisher counts them."""
    message_id: int = 0
    """As the engine counts them, on delivery."""


class Ledger:
    """One actor's own file."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def note(self, step: Step, number: int, message_id: int = 0) -> None:
        os.write(self._file, f"{step} {number} {message_id}\n".encode())

    def close(self) -> None:
        os.close(self._file)


def read(folder: Path) -> Iterator[Entry]:
    """Every line of every actor."""
    for path in sorted(folder.glob("*.ledger")):
        for line in path.read_text(encoding="ascii").splitlines():
            step, number, message_id = line.split()
            yield Entry(Step(step), int(number), int(message_id))
