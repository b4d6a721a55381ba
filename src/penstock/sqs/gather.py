"""Group commit at the door: requests that meet are answered by one statement.

A lane is one action on one queue.  The first request of an idle lane sets out at once; those that
arrive while its statement runs set out together when it is done.  There is no timer, so a lone
request waits for nobody, and the busier a lane is, the more its statements carry.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from penstock.errors import EngineError

L = TypeVar("L", bound=Hashable)
A = TypeVar("A")

MOST_BYTES = 2 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Ask:
    """A request and its context, both as JSON."""

    request: bytes
    context: bytes


@dataclass(frozen=True, slots=True)
class _Waiting(Generic[A]):
    ask: Ask
    answer: asyncio.Future[A]


class Gatherer(Generic[L, A]):
    """Runs batches; `run` answers every ask of a batch, in order."""

    def __init__(
        self, run: Callable[[L, Sequence[Ask]], Awaitable[Sequence[A]]], *, most: int = 64
    ) -> None:
        self._run = run
        self._most = most
        # A lane is here while it runs, with those who wait for its next statement.
        self._lanes: dict[L, list[_Waiting[A]]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def ask(self, lane: L, ask: Ask) -> A:
        """The answer to one request, which may travel with others."""
        loop = asyncio.get_running_loop()
        waiting: _Waiting[A] = _Waiting(ask, loop.create_future())
        running = self._lanes.get(lane)
        if running is None:
            self._lanes[lane] = [waiting]
            task = loop.create_task(self._serve(lane))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        else:
            running.append(waiting)
        return await waiting.answer

    async def settle(self) -> None:
        """Wait until nothing is under way."""
        while self._tasks:
            await asyncio.wait(set(self._tasks))

    async def _serve(self, lane: L) -> None:
        while waiting := self._lanes[lane]:
            batch = waiting[: fitting([each.ask for each in waiting], self._most)]
            self._lanes[lane] = waiting[len(batch) :]
            await self._answer(lane, batch)
        del self._lanes[lane]

    async def _answer(self, lane: L, batch: Sequence[_Waiting[A]]) -> None:
        try:
            answers = await self._run(lane, [each.ask for each in batch])
        except EngineError as problem:
            # The database refused the statement as a whole; alone, only the culprit is refused.
            if len(batch) == 1:
                _fail(batch, problem)
            else:
                for each in batch:
                    await self._answer(lane, [each])
        except BaseException as problem:  # noqa: BLE001 - it goes to those who asked
            _fail(batch, problem)
        else:
            for each, answer in zip(batch, answers, strict=True):
                if not each.answer.done():
                    each.answer.set_result(answer)


def fitting(asks: Sequence[Ask], most: int) -> int:
    """How many of the first asks one statement takes: so many, and not too many bytes."""
    size = 0
    for count, ask in enumerate(asks[:most]):
        size += len(ask.request)
        if size > MOST_BYTES and count:
            return count
    return min(len(asks), most)


def _fail(batch: Sequence[_Waiting[A]], problem: BaseException) -> None:
    for each in batch:
        if not each.answer.done():
            each.answer.set_exception(problem)
