"""What a listener decides, without touching a socket or a clock.

One connection hears for all queues of a client.  It may be quiet on it for hours, so silence says
nothing: a heartbeat asks a question when it has been quiet for a while, and an answer that does not
come within the patience means a dead line.  With the defaults a half-open socket is noticed after
ten seconds.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Generic, TypeVar

from psycopg import sql

if TYPE_CHECKING:
    from collections.abc import Iterator
    from collections.abc import Set as AbstractSet
    from datetime import timedelta

W = TypeVar("W")


@dataclass(frozen=True, slots=True)
class ListenerTimes:
    """The listener's times, in seconds."""

    heartbeat: float = 5.0
    """Ask after this much silence."""
    patience: float = 5.0
    """An answer later than this never comes: together a dead line is noticed within 15 s."""
    first_delay: float = 1.0
    """Before the first attempt to connect again; doubles with each that fails."""
    longest_delay: float = 30.0


def listener_times(heartbeat: timedelta) -> ListenerTimes:
    """The times that belong to a heartbeat: an answer may take as long again."""
    return ListenerTimes(heartbeat.total_seconds(), heartbeat.total_seconds())


class Reach(Enum):
    """Can this watch be woken?"""

    NOT_YET = "not yet"
    """The line is being made, or was lost: poll meanwhile."""
    HEARING = "hearing"
    DEAF = "deaf"
    """A pooler stands in between and hands sessions around, so LISTEN can't be relied on."""


def rest(heard_at: float, now: float, times: ListenerTimes) -> float:
    """How long to wait for notifications before asking whether the line lives; 0: ask now."""
    return max(0.0, heard_at + times.heartbeat - now)


@dataclass(frozen=True, slots=True)
class Changes:
    """What to tell the server, so that it notifies of the right channels."""

    listen: frozenset[str]
    unlisten: frozenset[str]

    def __bool__(self) -> bool:
        return bool(self.listen or self.unlisten)

    def statement(self) -> sql.Composed:
        """All of it in one message to the server."""
        words = [
            *(sql.SQL("listen {}").format(sql.Identifier(each)) for each in sorted(self.listen)),
            *(
                sql.SQL("unlisten {}").format(sql.Identifier(each))
                for each in sorted(self.unlisten)
            ),
        ]
        return sql.SQL("; ").join(words)


def changes(wanted: AbstractSet[str], in_force: AbstractSet[str]) -> Changes:
    return Changes(frozenset(wanted - in_force), frozenset(in_force - wanted))


class Subscriptions(Generic[W]):
    """Who wants to be woken by which channel.  The blocking client's threads share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._watches: dict[str, list[W]] = {}

    def add(self, channel: str, watch: W) -> None:
        with self._lock:
            self._watches.setdefault(channel, []).append(watch)

    def remove(self, channel: str, watch: W) -> None:
        with self._lock:
            watches = self._watches[channel]
            watches.remove(watch)
            if not watches:
                del self._watches[channel]

    def channels(self) -> frozenset[str]:
        with self._lock:
            return frozenset(self._watches)

    def of(self, channel: str) -> list[W]:
        with self._lock:
            return list(self._watches.get(channel, ()))

    def __iter__(self) -> Iterator[W]:
        with self._lock:
            all_watches = [watch for watches in self._watches.values() for watch in watches]
        return iter(all_watches)
