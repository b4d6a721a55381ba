"""Long polls: they wait in memory, those of one queue on one wake-up, none on a connection.

Each queue with open polls has one task.  It listens to the queue's channel, registers as waiting,
looks once more, and sleeps until it is notified, until something becomes visible by itself (a
delay, the end of a claim), or until the next look.  The time between two looks is short when few
queues are polled and longer when many are, so idle polls cost next to nothing, however many there
are.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING
from uuid import uuid4

from penstock.client import calls
from penstock.errors import PenstockError
from penstock.sqs.backend.sqs_service import NOTHING, RECEIVE
from penstock.sqs.protocol.faults import Fault

if TYPE_CHECKING:
    from penstock.client._async.client import Client
    from penstock.sqs.backend.call_batcher import Invocation
    from penstock.sqs.backend.sqs_service import Service
    from penstock.sqs.protocol.queue_names import QueueId

Gone = Callable[[], "asyncio.Future[None]"]
"""Gives a future that is done when the client has hung up."""

_SHORTEST_LOOK = 1.0
_LONGEST_LOOK = 20.0
_LOOKS_PER_SECOND = 20
_MOST_AT_ONCE = 16


@dataclass(eq=False, slots=True)
class _Poll:
    invocation: Invocation
    deadline: float
    answer: asyncio.Future[bytes]
    asking: bool = False
    """Its claim is under way: what it brings must reach the client, or be given back."""
    gone: bool = False


@dataclass(eq=False, slots=True)
class _Group:
    """The open polls of one queue."""

    queue: QueueId
    polls: deque[_Poll] = field(default_factory=deque)
    wake: Callable[[], None] = lambda: None
    token: str = field(default_factory=lambda: f"sqs poll {uuid4()}")
    """The consumer token of the waiting: receives with other tokens don't end it."""

    def open(self) -> int:
        """Drop those that are done from the front; say how many may be left."""
        while self.polls and self.polls[0].answer.done():
            self.polls.popleft()
        return len(self.polls)


class Polls:
    """Every open long poll of this process."""

    def __init__(self, client: Client, service: Service) -> None:
        self._client = client
        self._service = service
        self._groups: dict[QueueId, _Group] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._stopping = False

    @property
    def count(self) -> int:
        return sum(len(group.polls) for group in self._groups.values())

    async def wait(
        self, queue: QueueId, invocation: Invocation, seconds: float, gone: Gone
    ) -> bytes:
        """The first answer with messages, or an empty one when the time is up."""
        if self._stopping:
            return NOTHING
        loop = asyncio.get_running_loop()
        poll = _Poll(invocation, loop.time() + seconds, loop.create_future())
        timer = loop.call_later(seconds, self._expire, queue, poll)
        hangup = gone()
        hangup.add_done_callback(lambda done: self._leave(queue, poll, done))
        self._join(queue, poll)
        try:
            return await poll.answer
        finally:
            timer.cancel()
            hangup.cancel()

    def nudge(self, queue: QueueId) -> None:
        """Another request received from the queue or changed it: the open polls register again."""
        if group := self._groups.get(queue):
            group.wake()

    def stop(self) -> None:
        """Answer every poll now; those whose claim is under way get what it brings."""
        self._stopping = True
        for group in self._groups.values():
            for poll in group.polls:
                _finish(poll)
            group.wake()

    async def settle(self) -> None:
        """Wait for the tasks of all queues to end."""
        while self._tasks:
            await asyncio.wait(set(self._tasks))

    def _join(self, queue: QueueId, poll: _Poll) -> None:
        group = self._groups.get(queue)
        if group is None:
            group = self._groups[queue] = _Group(queue)
            task = asyncio.get_running_loop().create_task(self._serve(group))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        group.polls.append(poll)

    def _expire(self, queue: QueueId, poll: _Poll) -> None:
        _finish(poll)
        group = self._groups.get(queue)
        if group is not None and not group.open():
            group.wake()

    def _leave(self, queue: QueueId, poll: _Poll, hangup: asyncio.Future[None]) -> None:
        if not hangup.cancelled():
            poll.gone = True
            self._expire(queue, poll)

    async def _serve(self, group: _Group) -> None:
        try:
            async with self._client.listener.watch(calls.channel(group.queue.engine_name)) as watch:
                group.wake = watch.wake
                while group.open() and not self._stopping:
                    await self._client.run(
                        calls.start_waiting(
                            group.queue.engine_name, timedelta(seconds=2 * self._rest), group.token
                        )
                    )
                    # Publishers notify once; look until there is nothing before sleeping again.
                    if not await self._hand_out(group) and group.open():
                        await watch.wait(await self._pause(group))
        except (PenstockError, Fault) as problem:
            # The queue was deleted, or the database is away: each poll says so to its client.
            self._end(group, problem)
        finally:
            del self._groups[group.queue]
            self._end(group, None)

    @property
    def _rest(self) -> float:
        """The longest time between two looks at a queue; publishers notify for twice as long."""
        return min(_LONGEST_LOOK, max(_SHORTEST_LOOK, len(self._groups) / _LOOKS_PER_SECOND))

    async def _pause(self, group: _Group) -> float:
        due = await self._client.run(calls.next_visible_in(group.queue.engine_name))
        return self._rest if due is None else max(0.0, min(self._rest, due.total_seconds()))

    async def _hand_out(self, group: _Group) -> bool:
        """Claim for the polls, oldest first, until a claim is empty; true: something was found."""
        found, at_once = False, 1
        while batch := [poll for poll in group.polls if not poll.answer.done()][:at_once]:
            for poll in batch:
                poll.asking = True
            answers = await asyncio.gather(
                *(self._service.call(RECEIVE, group.queue, poll.invocation) for poll in batch),
                return_exceptions=True,
            )
            empty = False
            for poll, answer in zip(batch, answers, strict=True):
                poll.asking = False
                await self._deliver(group, poll, answer)
                empty |= answer == NOTHING
                found |= isinstance(answer, bytes) and answer != NOTHING
            if empty:
                break
            at_once = min(2 * at_once, _MOST_AT_ONCE)
        return found

    async def _deliver(self, group: _Group, poll: _Poll, answer: bytes | BaseException) -> None:
        late = asyncio.get_running_loop().time() >= poll.deadline or self._stopping
        if isinstance(answer, BaseException):
            poll.answer.set_exception(answer)
        elif answer != NOTHING and poll.gone:
            poll.answer.set_result(NOTHING)
            await self._service.give_back(group.queue, answer, poll.invocation.context)
        elif answer != NOTHING or late or poll.gone:
            poll.answer.set_result(answer)

    def _end(self, group: _Group, problem: Exception | None) -> None:
        for poll in group.polls:
            if not poll.answer.done():
                if problem is None:
                    poll.answer.set_result(NOTHING)
                else:
                    poll.answer.set_exception(problem)


def _finish(poll: _Poll) -> None:
    if not poll.asking and not poll.answer.done():
        poll.answer.set_result(NOTHING)
