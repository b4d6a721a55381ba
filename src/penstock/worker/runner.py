"""The way of a message through a worker: the fetcher claims it, a slot of its handler runs it, the
ack batcher tells the database.

A runner serves one source: a queue, or a task store.  `Fetcher.run` gives it what was claimed
(`Runner.take`); `Slots` start a task for each message; `Runner.ended` passes the outcome on to the
`AckBatcher`, and `Runner.answered` is the end.  Meanwhile the `Heartbeat` extends the claims.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, deque
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from penstock.errors import ClaimLost, PenstockError
from penstock.observe.events import has_subscribers
from penstock.worker.ack_batcher import AckBatcher
from penstock.worker.failure_log import FailureLog
from penstock.worker.fetcher import Fetcher
from penstock.worker.heartbeat import Heartbeat
from penstock.worker.options import Load, averaged, wanted
from penstock.worker.outcomes import (
    ACKED,
    BY_HANDLER,
    RELEASED,
    Outcome,
    TookTooLong,
    Verdict,
    outcome_of,
)
from penstock.worker.quarantine import Quarantine
from penstock.worker.source import Answer, Claim, Ended, Found, Source, Stage
from penstock.worker.status import Counters, HandlerStatus

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Sequence

    from penstock.worker.handler import Handler
    from penstock.worker.invoke import Middleware
    from penstock.worker.options import Options

# Looked up with each message, so by a name of this module.
_RUNNING, _SETTLING = Stage.RUNNING, Stage.SETTLING
_TOLD = (Verdict.SETTLED, Verdict.BY_HANDLER)
"""The database knows already."""

Start: TypeAlias = "Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]]"


class Runner:
    """One source, the handlers that it feeds, and everything that they hold."""

    def __init__(
        self,
        source: Source,
        handlers: Sequence[Handler],
        options: Options,
        *,
        layers: Sequence[Middleware] = (),
        quarantine: Quarantine | None = None,
        log: FailureLog | None = None,
    ) -> None:
        """`options`: how much all handlers together may hold, and what a failed claim means."""
        self.source = source
        self.options = options
        self.log = log or FailureLog()
        self.quarantine = quarantine or Quarantine()
        self.claims: dict[Any, Claim] = {}
        """What is held, by its id."""
        self.freed = asyncio.Event()
        """A slot may be free."""
        self.changed = asyncio.Event()
        """The queue itself has changed: a key's next message may be free, or a retry may be due."""
        self._less = asyncio.Event()
        """Something is not held any more."""
        self.accepting = True
        self.slots = {
            each.queue: Slots(self, each, source.invoker(each, layers)) for each in handlers
        }
        self.acks = AckBatcher(self)
        self.fetcher = Fetcher(self)
        self.heartbeat = Heartbeat(self)

    @property
    def running(self) -> int:
        return sum(len(each.running) for each in self.slots.values())

    @property
    def waiting(self) -> int:
        return sum(len(each.waiting) for each in self.slots.values())

    def status(self) -> list[HandlerStatus]:
        """What each handler is doing."""
        held = Counter(claim.slots for claim in self.claims.values())
        return [each.status(held[each], self.fetcher.trouble) for each in self.slots.values()]

    # From the claim to the handler

    def wanted(self) -> int:
        """How many messages to claim now; 0: none, until `freed`."""
        slots = self.slots.values()
        if not self.options.most_waiting and not any(each.free > 0 for each in slots):
            return 0
        known = [each.seconds for each in slots if each.seconds is not None]
        load = Load(
            len(self.claims),
            self.running,
            self.waiting,
            max(known, default=None),
            closed=self.quarantine.taken,
        )
        return wanted(self.options, load)

    def take(self, found: Found) -> None:
        """Start what was claimed; if one has to be handled alone, release the others."""
        batch = found.claims
        self.source.tell_claimed(len(batch))
        for slots, count in Counter(claim.slots for claim in batch).items():
            slots.counters.claimed += count
        for claim in batch:
            before = self.claims.get(claim.id)
            if before is not None and not before.finished:
                # Our earlier claim on it had ended before we knew.
                self.lose(before)
            self.claims[claim.id] = claim
        if self.accepting and not self.quarantine.taken:
            if not found.suspects:
                self._start(batch)
                return
            suspect = found.suspects[0]
            self.quarantine.ask(self, suspect)
            batch = [claim for claim in batch if claim is not suspect]
        for claim in batch:
            self.release(claim)

    def _start(self, batch: list[Claim]) -> None:
        if len(self.slots) == 1:
            batch[0].slots.take(batch)
            return
        for claim in batch:
            claim.slots.take((claim,))

    async def begin_attempt(self, claim: Claim) -> None:
        """Count a deferred attempt from now on, and give the message to its handler."""
        try:
            holds = await self.source.begin_attempt(claim)
        except PenstockError as problem:
            self.source.tell_failure(problem)
            self.release(claim)
            return
        if holds:
            self._start([claim])
        else:
            self.lose(claim)

    # From the handler to the ack

    def ended(self, claim: Claim, outcome: Outcome | None) -> None:
        """A handler has ended; None: the claim is lost, so nothing we say counts."""
        if claim.lost or outcome is None:
            self.lose(claim)
            return
        if has_subscribers():
            self.source.tell_ended(claim, outcome)
        self._settle(claim, outcome)

    def _settle(self, claim: Claim, outcome: Outcome) -> None:
        claim.stage = _SETTLING
        if outcome is not ACKED and outcome.verdict in _TOLD:
            self.answered([(claim, outcome)], {claim: False})
        else:
            self.acks.add(claim, outcome)

    def answered(self, batch: list[Ended], kept: Answer) -> None:
        """The database knows what became of these messages: of one handler, with one outcome."""
        dead = 0
        keyed = False
        for claim, _ in batch:
            died = kept.get(claim)
            if died is None:
                self.lose(claim)
                continue
            self.forget(claim)
            dead += died
            # The key's next message may be free now.
            keyed = keyed or claim.keyed
        first, outcome = batch[0]
        first.slots.counters.count(outcome.verdict, len(kept), dead)
        self.source.tell_settled(batch, kept)
        self.freed.set()
        if keyed or outcome.verdict in (Verdict.RETRY, Verdict.BY_HANDLER):
            self.changed.set()

    # What ends otherwise

    def release(self, claim: Claim) -> None:
        """Give back one that has not begun."""
        if not claim.lost:
            self._settle(claim, RELEASED)

    def release_waiting(self) -> None:
        """Give back what has not begun."""
        for claim in self.drop_waiting():
            self.release(claim)

    def drop_waiting(self) -> list[Claim]:
        """Forget what has not begun: it comes back when its claim ends."""
        return [claim for slots in self.slots.values() for claim in slots.drop_waiting()]

    def release_running(self) -> list[asyncio.Task[None]]:
        """Cancel what runs and give it back; a thread can't be cancelled, its message is."""
        for claim in self.claims.values():
            if claim.stage is _RUNNING:
                claim.released = True
        return self.cancel()

    def cancel(self) -> list[asyncio.Task[None]]:
        """Cancel all handlers that run, and wait for no thread any more."""
        return [task for slots in self.slots.values() for task in slots.cancel()]

    def lose(self, claim: Claim) -> None:
        """Its claim is gone: the handler is cancelled, and nothing it says counts any more."""
        first_known = self.claims.get(claim.id) is claim
        claim.lost = True
        self.forget(claim)
        if first_known:
            claim.slots.counters.lost += 1
            self.source.tell_lost(claim)
        # One that says so itself has ended already.
        if claim.stage is Stage.RUNNING and claim.task not in (None, asyncio.current_task()):
            claim.task.cancel()
        self.freed.set()

    def forget(self, claim: Claim) -> None:
        """It is not held any more."""
        if self.claims.get(claim.id) is claim:
            del self.claims[claim.id]
            self._less.set()

    # Waiting for it

    async def settled(self) -> None:
        """Return when nothing is held any more."""
        await self._until(lambda: not self.claims)

    async def without(self, claim: Claim) -> None:
        """Return when that one is not held any more."""
        await self._until(lambda: self.claims.get(claim.id) is not claim)

    async def idle(self) -> None:
        """Return when no handler runs."""
        while tasks := [task for slots in self.slots.values() for task in slots.tasks()]:
            await asyncio.wait(tasks)

    def empty(self, *, but: Claim) -> bool:
        """Nothing is held or about to be, except perhaps that one."""
        return not self.fetcher.looking and all(each is but for each in self.claims.values())

    async def _until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            self._less.clear()
            await self._less.wait()

    async def close(self, *, at_once: bool) -> None:
        """End threads and processes; `at_once`: without waiting for those that still work."""
        for slots in self.slots.values():
            await slots.invoke.close(at_once=at_once or bool(slots.running))


class Slots:
    """One handler at work: at most `concurrency` messages run, the others wait their turn."""

    def __init__(self, runner: Runner, handler: Handler, invoke: Any) -> None:
        self.handler = handler
        self.invoke = invoke
        self.counters = Counters()
        self.waiting: deque[Claim] = deque()
        self.running: set[Claim] = set()
        """A thread that outlived its message is among them: it still has its slot."""
        self.seconds: float | None = None
        """How long a message takes, on average."""
        self._runner = runner
        self._source = runner.source
        self._concurrency = handler.options.concurrency
        self._timeout = handler.options.timeout
        self._settles = invoke.settles
        self._call = invoke if self._timeout is None else self._within
        self._shares = handler.options.concurrency < runner.options.concurrency
        """Other handlers of the runner may have slots when this one has none."""
        self._start: Start | None = None
        self._filling = False
        self._cut_short = False

    @property
    def free(self) -> int:
        return self._concurrency - len(self.running) - len(self.waiting)

    def tasks(self) -> list[asyncio.Task[None]]:
        return [claim.task for claim in self.running if claim.task is not None]

    def status(self, held: int, trouble: str | None) -> HandlerStatus:
        """What the handler is doing."""
        counted = self.counters
        return HandlerStatus(
            queue=self.handler.queue,
            running=len(self.running),
            waiting=len(self.waiting),
            held=held,
            claimed=counted.claimed,
            acked=counted.acked,
            failed=counted.failed,
            dead=counted.dead,
            released=counted.released,
            lost=counted.lost,
            trouble=trouble,
        )

    def take(self, batch: Iterable[Claim]) -> None:
        """Start what there are slots for; the rest waits."""
        self.waiting.extend(batch)
        self._fill()

    def drop_waiting(self) -> list[Claim]:
        """Remove the messages that have not begun; returns those whose claims still hold."""
        dropped = [each for each in self.waiting if not each.lost]
        self.waiting.clear()
        return dropped

    def cancel(self) -> list[asyncio.Task[None]]:
        """Cancel all that runs, and wait for no thread any more."""
        self._cut_short = True
        tasks = self.tasks()
        for task in tasks:
            task.cancel()
        return tasks

    def _fill(self) -> None:
        waiting, running = self.waiting, self.running
        # An eager task ends within `start`, and comes here again: the loop below goes on for it.
        if not waiting or self._filling:
            return
        start = self._start = self._start or _starter(asyncio.get_running_loop())
        self._filling = True
        try:
            while waiting and len(running) < self._concurrency:
                claim = waiting.popleft()
                if not claim.lost:
                    claim.stage = _RUNNING
                    running.add(claim)
                    # A task for each message: what a handler leaves in its context ends with it.
                    claim.task = start(self._work(claim))
        finally:
            self._filling = False

    async def _work(self, claim: Claim) -> None:
        started = time.perf_counter()
        try:
            outcome = await self._outcome(claim)
            claim.seconds = seconds = time.perf_counter() - started
            self.seconds = averaged(self.seconds, seconds)
            self._runner.ended(claim, outcome)
            # Only what was cut off can still occupy its place.
            if outcome is not ACKED and not self._cut_short:
                await self.invoke.linger()
        finally:
            if claim.stage is _RUNNING:
                # It was cut off: its claim is not extended any more, and ends by itself.
                self._runner.forget(claim)
            if self._shares and self.free <= 0:
                # Its queue was left out while there was no slot, and is looked at again.
                self._runner.changed.set()
            self.running.discard(claim)
            self._fill()
            # Not the same moment as the message's end: a thread may have outlived it.
            self._runner.freed.set()

    async def _outcome(self, claim: Claim) -> Outcome | None:
        """What became of it; None: the claim is lost, so nothing we say counts."""
        outcome: Outcome | None
        try:
            message = self._source.message(claim)
            with self._source.span(claim):
                result = await self._call(message, claim.record)
            outcome = result if self._settles else ACKED
        except asyncio.CancelledError as problem:
            outcome = self._cancelled(claim, problem)
        except ClaimLost:
            claim.lost = True
            return None
        except KeyboardInterrupt:
            # Ctrl-C in a program that has no handler for it: no fault of the message's.
            self._runner.release(claim)
            raise
        except BaseException as problem:  # noqa: BLE001 - a handler's answer, whatever it is
            outcome = self._failed(claim, problem)
        return BY_HANDLER if claim.finished else outcome

    async def _within(self, message: Any, record: Any) -> Any:
        assert self._timeout is not None
        seconds = self._timeout.total_seconds()
        await self.invoke.prepare()
        try:
            async with asyncio.timeout(seconds) as limit:
                return await self.invoke(message, record)
        except TimeoutError:
            if limit.expired():
                raise TookTooLong(f"the handler took longer than {seconds:g} s") from None
            raise

    def _cancelled(self, claim: Claim, problem: asyncio.CancelledError) -> Outcome | None:
        task = asyncio.current_task()
        assert task is not None
        if claim.lost:
            task.uncancel()
            return None
        if claim.released:
            task.uncancel()
            return RELEASED
        if task.cancelling() and self._cut_short:
            raise problem
        # The handler's own: something it waited for was cancelled, or it cancelled itself.
        task.uncancel()
        return self._failed(claim, problem)

    def _failed(self, claim: Claim, problem: BaseException) -> Outcome:
        self._runner.log.write(self.handler, claim.record, problem)
        return outcome_of(problem)


def _starter(loop: asyncio.AbstractEventLoop) -> Start:
    """What makes a task: `asyncio.Task` directly, unless a task factory is installed."""
    if loop.get_task_factory() is not None:
        return loop.create_task
    return partial(asyncio.Task, loop=loop)
