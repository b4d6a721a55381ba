"""What actors did, one line a step, in one history that outlives them.

An actor writes each line with one `write` to a pipe; another process, the recorder, appends what
comes out of it to a file.  So a killed actor leaves whole lines, none of what it did before is
missing, and the file's order is the order in which things were written down.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

NOWHERE = "-"


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
    """A consumer got it, and has not acked it yet."""
    DONE = "done"
    """The consumer was told: its ack is stored."""
    EXTENDED = "extended"
    """A worker has kept as many claims alive."""
    HOLDING = "holding"
    """A consumer has claimed as many, and waits to be stopped."""
    STALE_REFUSED = "stale_refused"
    """What was asked for with the token of a claim that had ended was refused."""
    STALE_ACCEPTED = "stale_accepted"
    TROUBLE = "trouble"
    """A session was told of an error that no lost connection explains."""
    FAULT = "fault"
    """The programme has done some damage."""


@dataclass(frozen=True, slots=True)
class Entry:
    step: Step
    number: int
    """How many, or the payload: which message it is, as the publisher counts them."""
    message_id: int = 0
    """As the engine counts them, on delivery."""
    attempt: int = 0
    """Which delivery it is, as the engine counts them."""
    place: str = NOWHERE
    """The queue of a delivery, the key of an attempt, the name of a fault."""
    actor: str = NOWHERE
    at: int = 0
    """Milliseconds, by a clock that all processes of the machine share."""


class Ledger:
    """One actor's way into the history."""

    def __init__(self, pipe: Path, actor: str) -> None:
        self._file = os.open(pipe, os.O_WRONLY)
        self._actor = actor

    def note(
        self, step: Step, number: int, message_id: int = 0, attempt: int = 0, place: str = NOWHERE
    ) -> None:
        now = time.monotonic_ns() // 1_000_000
        words = (now, self._actor, step, number, message_id, attempt, place)
        os.write(self._file, (" ".join(map(str, words)) + "\n").encode())

    def close(self) -> None:
        os.close(self._file)


class History:
    """A history that is still being written, read as far as it has got."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._offset = 0
        self._entries: list[Entry] = []

    def entries(self) -> list[Entry]:
        """Every whole line, in order."""
        with self._file.open("rb") as source:
            source.seek(self._offset)
            data = source.read()
        whole = data[: data.rfind(b"\n") + 1]
        self._offset += len(whole)
        self._entries += [_entry(line) for line in whole.decode().splitlines()]
        return self._entries


def read(file: Path) -> list[Entry]:
    return History(file).entries()


def _entry(line: str) -> Entry:
    at, actor, step, number, message_id, attempt, place = line.split()
    return Entry(Step(step), int(number), int(message_id), int(attempt), place, actor, int(at))
