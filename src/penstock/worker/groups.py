"""Consumer groups: members that share a queue, each message going to one of them.

A message goes to `accepting[id % n]` of the members whose filter accepts it, so that the same
members share the same messages the same way in every process.  They may join and leave at any time.

What happens to a message that no member gets:

- the *group's* filter refuses: the message is acked.  The filter holds for all members, those that
  join later too, and other groups have queues of their own.
- no *member* accepts: the message is retried by the queue's policy and at last a dead letter.  A
  member that would take it may join in the meantime; acking it would lose it without a word.
- the group has no members: nothing is claimed until one joins.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from penstock.errors import InvalidSetting
from penstock.worker.handler import accepts, is_async
from penstock.worker.outcomes import Retry

Handle: TypeAlias = Callable[[Any], Awaitable[Any]]
Filter: TypeAlias = Callable[[Any], bool]


@dataclass(slots=True, eq=False)
class Member:
    """One member of a group."""

    name: str
    handle: Handle
    filter: Filter | None = None
    handled: int = 0
    """Messages it has been given."""

    def accepts(self, message: Any) -> bool:
        return self.filter is None or bool(self.filter(message))


def chosen(members: Sequence[Member], message: Any) -> Member | None:
    """The member that gets a message; None: no member accepts it."""
    accepting = [member for member in members if member.accepts(message)]
    return accepting[message.id % len(accepting)] if accepting else None


@dataclass(slots=True, eq=False)
class Group:
    """A named set of members; `worker.add_group(group)` serves them from the queue of its name."""

    name: str
    filter: Filter | None = None
    queue: str = ""
    """The queue that the members share; its name is the group's unless told otherwise."""
    _members: dict[str, Member] = field(default_factory=dict)
    _populated: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.queue = self.queue or self.name

    @property
    def members(self) -> tuple[Member, ...]:
        """In the order of joining."""
        return tuple(self._members.values())

    def add_member(self, name: str, handle: Handle, *, filter: Filter | None = None) -> Member:  # noqa: A002
        """Add a member: it may get the next message."""
        if name in self._members:
            raise InvalidSetting(
                f"group {self.name!r} has a member {name!r} already: remove it first, or choose "
                "another name"
            )
        if not is_async(handle):
            raise InvalidSetting(f"member {name!r} must be `async def` and take (message)")
        accepts(handle, f"member {name!r}", ("message",))
        member = self._members[name] = Member(name, handle, filter)
        self._populated.set()
        return member

    def member(self, name: str, *, filter: Filter | None = None) -> Callable[[Handle], Handle]:  # noqa: A002
        """`add_member` as a decorator."""

        def register(handle: Handle) -> Handle:
            self.add_member(name, handle, filter=filter)
            return handle

        return register

    def remove_member(self, name: str) -> None:
        """Remove a member: it finishes the messages it works on, and gets no new ones."""
        if name not in self._members:
            raise InvalidSetting(f"group {self.name!r} has no member {name!r}")
        del self._members[name]
        if not self._members:
            self._populated.clear()

    async def populated(self) -> None:
        """Return when the group has a member."""
        await self._populated.wait()

    async def handle(self, message: Any) -> None:
        """Give a message to the member whose turn it is."""
        if self.filter is not None and not self.filter(message):
            return
        member = chosen(self.members, message)
        if member is None:
            raise Retry(reason=f"no member of group {self.name!r} accepts this message")
        member.handled += 1
        await member.handle(message)
