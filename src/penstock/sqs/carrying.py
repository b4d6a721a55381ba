"""Batches of jobs, carried out over the door's own connections.

What goes wrong on them (a connection that breaks, a statement that the database refuses because of
one of its requests) is left to the client's way of calling, which is slower and knows when to
repeat what.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import psycopg

from penstock.client import retrying
from penstock.client.retrying import Kind
from penstock.errors import PenstockError
from penstock.sqs import calls
from penstock.sqs.pipe import Pipe

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence
    from typing import Any

    from penstock.client._async.database import Database
    from penstock.sqs.gather import Job
    from penstock.sqs.pipe import Answers


class Carrier:
    """A few pipes of one kind, opened when they are needed."""

    def __init__(self, database: Database, *, durable: bool) -> None:
        self._database = database
        self._durable = durable
        self._idle: list[Pipe] = []
        self._tasks: set[asyncio.Task[None]] = set()

    def begin(self, jobs: Sequence[Job], done: Callable[[], None]) -> None:
        """Answer every job, with what it asked for or with what went wrong; then call `done`."""
        pipe = self._taken()
        if pipe is None:
            self._chore(self._begin_slowly(jobs), jobs, done)
        else:
            self._set_out(pipe, jobs, done)

    async def run(self, jobs: Sequence[Job]) -> None:
        """The same for those who have nothing else to do."""
        over = asyncio.get_running_loop().create_future()
        self.begin(jobs, lambda: over.set_result(None))
        await over

    def _set_out(self, pipe: Pipe, jobs: Sequence[Job], done: Callable[[], None]) -> None:
        groups = _grouped(jobs)

        def finished(found: list[Answers], problem: Exception | None) -> None:
            if not pipe.broken:
                self._idle.append(pipe)
            if problem is None:
                for group, answers in zip(groups, found, strict=True):
                    _answer(group, answers)
                done()
            else:
                self._chore(self._recover(groups, problem), jobs, done)

        pipe.send([calls.parameters_of(group) for group in groups], finished)

    def _chore(
        self, chore: Coroutine[Any, Any, None], jobs: Sequence[Job], done: Callable[[], None]
    ) -> None:
        """What takes several steps."""

        async def carry_out() -> None:
            try:
                await chore
            except BaseException as problem:  # noqa: BLE001 - it goes to those who asked
                _fail(jobs, problem)
            finally:
                done()

        task = asyncio.get_running_loop().create_task(carry_out())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _begin_slowly(self, jobs: Sequence[Job]) -> None:
        groups = _grouped(jobs)
        if self._database.settings.pooler:
            # A pooler's connections belong to nobody for longer than a transaction.
            for group in groups:
                await self._call(group)
            return
        try:
            pipe = await Pipe.open(self._database, durable=self._durable)
        except (psycopg.Error, PenstockError) as problem:
            await self._recover(groups, problem, sent=False)
            return
        over = asyncio.get_running_loop().create_future()
        self._set_out(pipe, jobs, lambda: over.set_result(None))
        await over

    async def close(self) -> None:
        """Close the connections; nothing may be under way."""
        while self._idle:
            await self._idle.pop().close()

    def _taken(self) -> Pipe | None:
        while self._idle:
            pipe = self._idle.pop()
            if not pipe.broken:
                return pipe
        return None

    async def _recover(
        self, groups: Sequence[Sequence[Job]], problem: Exception, *, sent: bool = True
    ) -> None:
        fault = retrying.classify(problem, sent=sent)
        alone = sum(map(len, groups)) == 1
        for jobs in groups:
            repeat = calls.repeat_of(jobs[0].action)
            if fault.kind is Kind.REFUSED and not alone:
                # The database refused the batch as a whole; alone, only the culprit is refused.
                for job in jobs:
                    await self._call([job])
            elif retrying.may_repeat(fault, repeat):
                await self._call(jobs)
            else:
                _fail(jobs, retrying.final(fault, repeat))

    async def _call(self, jobs: Sequence[Job]) -> None:
        call = calls.invoke_on(jobs)
        try:
            database = self._database
            found = await (database.run(call) if self._durable else database.claim(call))
            _answer(jobs, found)
        except PenstockError as problem:
            if len(jobs) > 1 and retrying.classify(problem).kind is Kind.REFUSED:
                for job in jobs:
                    await self._call([job])
            else:
                _fail(jobs, problem)


def _grouped(jobs: Sequence[Job]) -> list[list[Job]]:
    """Jobs that one call carries out: of one action, queue and context.

    In one order everywhere, so that two batches can't wait for each other's locks.
    """
    groups: dict[tuple[str, str, bytes], list[Job]] = {}
    for job in jobs:
        groups.setdefault((job.queue, job.action, job.ask.context), []).append(job)
    return [groups[each] for each in sorted(groups)]


def _answer(jobs: Sequence[Job], answers: Sequence[bytes]) -> None:
    for job, answer in zip(jobs, answers, strict=True):
        if not job.answer.done():
            job.answer.set_result(answer)


def _fail(jobs: Sequence[Job], problem: BaseException) -> None:
    for job in jobs:
        if not job.answer.done():
            job.answer.set_exception(problem)
