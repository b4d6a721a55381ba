"""Sends the outcomes of messages to the database in batches; no handler waits for it.

When no call is under way the next one starts at once; what gathers meanwhile goes with the one
after it.  While more messages wait for their handler, acks gather a moment longer: one call for ten
costs the database little more than one for one.  So an idle worker acks without delay, and a busy
one in large batches.

A call that fails because the database is away is repeated while the claims last.  A call that the
database refuses is not: repeating it would only hold up the others.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from penstock import errors
from penstock.backoff import doubled
from penstock.cancellation import end
from penstock.worker.outcomes import ACKED, Verdict

if TYPE_CHECKING:
    from penstock.worker.invoke import Claim
    from penstock.worker.outcomes import Outcome
    from penstock.worker.runner import Ended, Runner

_log = logging.getLogger("penstock.worker")

_GATHERING_SECONDS = 0.01
_FIRST_PAUSE_SECONDS = 0.2
_LONGEST_PAUSE_SECONDS = 5.0

# Refusals that pass: another transaction, a fail-over, a full disk, an upgrade under way.
_PASSING = (
    errors.Conflict,
    errors.StandbyServer,
    errors.DiskFull,
    errors.LogFull,
    errors.NotInstalled,
    errors.WrongSchemaVersion,
    errors.RebaseNeeded,
)
# Rollbacks, missing resources, objects in use, an operator's intervention, system errors.
_PASSING_CODES = ("40", "53", "55", "57", "58")
# What is refused to one message of the queue is refused to all.
_OF_THE_QUEUE = (errors.UnknownName, errors.QueueExpired, errors.PermissionDenied)


def is_final(problem: Exception, refusals: tuple[type[Exception], ...] = ()) -> bool:
    """Whether the database has refused the call: sending it again would not help."""
    if isinstance(problem, refusals):
        return True
    if isinstance(problem, errors.EngineError):
        code = problem.code or ""
        return not (isinstance(problem, _PASSING) or code.startswith(_PASSING_CODES))
    # Any other error of ours tells of a database that is away; one of Python's, of a bad value.
    return not isinstance(problem, errors.PenstockError)


class AckBatcher:
    """Sends what became of one runner's messages."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self._source = runner.source
        self._gathers = runner.source.gathers
        self._enough = runner.options.most_claimed // 4
        self._pending: list[Ended] = []
        self._hurried = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def add(self, claim: Claim, outcome: Outcome) -> None:
        """Have it sent; returns at once."""
        self._pending.append((claim, outcome))
        may_gather = (
            outcome is ACKED
            and self._gathers
            # The next message of a key may be waiting in the database for this ack.
            and not claim.keyed
            # If no message waits for its handler, nothing else is done meanwhile.
            and claim.slots.waiting
            and len(self._pending) < self._enough
        )
        if not may_gather:
            self._hurried.set()
        if self._task is None:
            task = asyncio.get_running_loop().create_task(self._drain())
            # An eager task may have ended already.
            self._task = None if task.done() else task

    async def drained(self) -> None:
        """Return when everything has been sent and answered."""
        while self._task is not None:
            await asyncio.wait([self._task])

    async def give_up(self) -> None:
        """Stop sending: what is left ends with its claim."""
        if self._task is not None:
            await end([self._task])

    async def _drain(self) -> None:
        try:
            while self._pending:
                await self._gathered()
                pending, self._pending = self._pending, []
                await self._send(list(self._source.batches(pending)))
        finally:
            self._task = None

    async def _gathered(self) -> None:
        if not self._hurried.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(_GATHERING_SECONDS):
                    await self._hurried.wait()
        self._hurried.clear()

    async def _send(self, batches: list[list[Ended]]) -> None:
        at_once = min(self._source.most_calls, len(batches))
        if at_once <= 1:
            for batch in batches:
                await self._until_answered(batch)
            return
        left = iter(batches)

        async def one_after_the_other() -> None:
            for batch in left:
                await self._until_answered(batch)

        async with asyncio.TaskGroup() as group:
            for _ in range(at_once):
                group.create_task(one_after_the_other())

    async def _until_answered(self, batch: list[Ended]) -> None:
        failures = 0
        while batch:
            try:
                kept = await self._source.settle(batch)
            except Exception as problem:  # noqa: BLE001 - whatever it is, the others must not wait
                if is_final(problem, self._source.refusals):
                    await self._refused(batch, problem)
                    return
                await asyncio.sleep(doubled(_FIRST_PAUSE_SECONDS, failures, _LONGEST_PAUSE_SECONDS))
                failures += 1
                # Leave out lost claims: another consumer may have the message by now.
                batch = [each for each in batch if not each[0].lost]
            else:
                self._runner.answered(batch, kept)
                return

    async def _refused(self, batch: list[Ended], problem: Exception) -> None:
        """Find the message that the database objects to; its claim ends by itself."""
        if len(batch) > 1 and not isinstance(problem, _OF_THE_QUEUE):
            for each in batch:
                await self._until_answered([each])
            return
        claim, outcome = batch[0]
        if outcome.verdict is Verdict.RETRY and outcome.delay is not None and len(batch) == 1:
            await self._until_answered([(claim, replace(outcome, delay=None))])
            return
        _log.error(
            "%s refused the outcome %s of %d message(s), from %s on: %s.  They are tried again "
            "when their claims end.",
            self._source.title,
            outcome.verdict.value,
            len(batch),
            claim.id,
            problem,
        )
        for claim, _ in batch:
            self._runner.lose(claim)
