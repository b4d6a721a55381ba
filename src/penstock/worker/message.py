"""The message that a worker's handler gets: it remembers whether the handler finished it itself."""

from __future__ import annotations

from typing import TypeVar

from penstock.client._async.message import Message
from penstock.observe.events import Name

P = TypeVar("P")

_ENDS = frozenset(
    {
        Name.MESSAGE_ACKED,
        Name.MESSAGE_FAILED,
        Name.MESSAGE_RELEASED,
        Name.MESSAGE_DEAD_LETTERED,
    }
)


class WorkerMessage(Message[P]):
    """`ack()`, `nack()` and the like work as everywhere; the worker then says nothing more."""

    __slots__ = ("finished",)

    finished: bool

    def _told(self, name: Name, *, held: bool) -> bool:
        if held and name in _ENDS:
            self.finished = True
        return super()._told(name, held=held)
