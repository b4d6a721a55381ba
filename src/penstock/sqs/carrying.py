"""Batches of jobs, carried out over the door's own connections.

What goes wrong on them (a connection that breaks, a statement that the database refuses because of
one of its requests) is left to the client's way of calling, which is slower and knows when to
repeat what.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg

from penstock.client import retrying
from penstock.client.retrying import Kind
from penstock.errors import PenstockError
from penstock.sqs import calls
from penstock.sqs.pipe import Pipe

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.client._async.database import Database
    from penstock.sqs.gather import Job


class Carrier:
    """A few pipes of one kind, opened when they are needed."""

    def __init__(self, database: Database, *, durable: bool) -> None:
        self._database = database
        self._durable = durable
        self._idle: list[Pipe] = []

    async def run(self, jobs: Sequence[Job]) -> None:
        """Answer every job, with what it asked for or with what went wrong."""
        groups = _grouped(jobs)
        try:
            if self._database.settings.pooler:
                # A pooler's connections belong to nobody for longer than a transaction.
                for group in groups:
                    await self._call(group)
            else:
                await self._carry(groups, alone=len(jobs) == 1)
        except BaseException as problem:  # noqa: BLE001 - it goes to those who asked
            _fail(jobs, problem)

    async def _carry(self, groups: Sequence[Sequence[Job]], *, alone: bool) -> None:
        pipe: Pipe | None = None
        try:
            pipe = await self._taken()
            found = await pipe.send([calls.parameters_of(group) for group in groups])
        except (psycopg.Error, PenstockError) as problem:
            for group in groups:
                await self._recover(group, problem, sent=pipe is not None, alone=alone)
        else:
            for group, answers in zip(groups, found, strict=True):
                _answer(group, answers)
        finally:
            if pipe is not None and not pipe.broken:
                self._idle.append(pipe)

    async def close(self) -> None:
        """Close the connections; nothing may be under way."""
        while self._idle:
            await self._idle.pop().close()

    async def _taken(self) -> Pipe:
        while self._idle:
            pipe = self._idle.pop()
            if not pipe.broken:
                return pipe
        return await Pipe.open(self._database, durable=self._durable)

    async def _recover(
        self, jobs: Sequence[Job], problem: Exception, *, sent: bool, alone: bool
    ) -> None:
        repeat = calls.repeat_of(jobs[0].action)
        fault = retrying.classify(problem, sent=sent)
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
