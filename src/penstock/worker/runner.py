"""The way of a message through a worker: the fetcher claims it, a slot of its handler runs it, the
ack batcher tells the database.

A runner serves one source: a queue (`queue_source.py`), or a task store.  `Fetcher.run` gives it
what was claimed (`Runner.take`); `Slots` (`invoke.py`) start a task for each message;
`Runner.ended` passes the outcome on to the `AckBatcher`, and `Runner.answered` is the end.
Meanwhile the `Heartbeat` extends the claims.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from penstock.errors import ClientClosed, PenstockError, WorkerGaveUp
from penstock.observe.events import has_subscribers
from penstock.worker.ack_batcher import AckBatcher
from penstock.worker.failure_log import FailureLog
from penstock.worker.invoke import Claim, Slots, Stage
from penstock.worker.options import error_pause
from penstock.worker.outcomes import ACKED, RELEASED, Outcome, Verdict
from penstock.worker.quarantine import Quarantine

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractAsyncContextManager, AbstractContextManager

    from penstock.worker.handler import Handler
    from penstock.worker.invoke import Invoker, Middleware
    from penstock.worker.options import Options
    from penstock.worker.status import HandlerStatus

# Looked up with each message, so by a name of this module.
_SETTLING = Stage.SETTLING
_TOLD = (Verdict.SETTLED, Verdict.BY_HANDLER)
"""The database knows already."""

# A message should not wait longer than this in a worker whose slots are busy: another worker may
# be idle.
WAIT_HORIZON_SECONDS = 0.1
# A claim with less than this share of its time left is extended: several more tries fit in.
EXTEND_BELOW = 0.5
# Reviews in one claim's time.
_REVIEWS = 6

Ended: TypeAlias = "tuple[Claim, Outcome]"
# The claims that still held, and whether each message has become a dead letter.
Answer: TypeAlias = Mapping[Claim, bool]


@dataclass(frozen=True, slots=True)
class Found:
    """What a claim brought."""

    claims: list[Claim]
    suspects: list[Claim] = field(default_factory=list)
    """Those whose attempt was deferred: a consumer may have died of one before."""
    busy: bool = False
    """The claim did not get its turn: the queue need not be empty."""


class Source(Protocol):
    """Claims work, and tells the database what became of it."""

    title: str
    """What it is, for errors: "queue 'billing'"."""
    claim_for: float
    """Seconds that a claim lasts."""
    gathers: bool
    """Whether one call can ack many, so that acks are worth gathering."""
    most_calls: int
    """Calls of the ack batcher at the same time."""
    refusals: tuple[type[Exception], ...]
    """Errors by which it refuses an outcome for good, besides those of the engine."""

    # From the wake-up to the claim

    def watching(self) -> AbstractAsyncContextManager[None]:
        """Be woken by the database for as long as the block lasts, where it can."""

    async def ready(self) -> None:
        """Return when the source may be looked at."""

    async def prepare(self) -> None:
        """Before a claim that may find nothing: see that a later message wakes us."""

    async def claim(self, count: int, slots: Sequence[Slots]) -> Found:
        """Claim up to so many messages for the handlers that have free slots."""

    async def rest(self, found: Found, count: int, changed: asyncio.Event) -> None:
        """After a claim of up to `count`: sleep for as long as a claim would find nothing."""

    async def sleep(self, seconds: float, changed: asyncio.Event) -> bool:
        """Sleep; True when something woke us: the database, or `changed`."""

    # From the claim to the ack

    def invoker(self, handler: Handler, layers: Sequence[Middleware]) -> Invoker:
        """What calls the handler."""

    def message(self, claim: Claim) -> Any:
        """What the handler gets; PayloadInvalid if the payload does not fit its type."""

    def span(self, claim: Claim) -> AbstractContextManager[None]:
        """Traces the handling of a message."""

    async def begin_attempt(self, claim: Claim) -> bool:
        """Count a deferred attempt from now on; False: the claim is lost."""

    def batches(self, ended: list[Ended]) -> Iterable[list[Ended]]:
        """Put together what one call can tell the database: of one handler, with one outcome."""

    async def settle(self, batch: list[Ended]) -> Answer:
        """Tell the database what became of such a batch."""

    async def extend(self, claims: list[Claim]) -> set[Claim]:
        """Extend claims and move their `ends_at`; returns those that still held."""

    # What it tells subscribers

    def tell_claimed(self, count: int) -> None: ...
    def tell_ended(self, claim: Claim, outcome: Outcome) -> None: ...
    def tell_settled(self, batch: list[Ended], kept: Answer) -> None: ...
    def tell_extended(self, count: int) -> None: ...
    def tell_lost(self, claim: Claim) -> None: ...
    def tell_failure(self, problem: Exception) -> None: ...


class Fetcher:
    """Looks at one source for as long as the worker runs; no failure ends it."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self._source = runner.source
        self._options = runner.options
        self._failures = 0
        self._claiming: asyncio.Future[Found] | None = None
        self.looking = False
        """A claim is under way, or about to be."""
        self.trouble: str | None = None

    async def run(self) -> None:
        """Ends by cancellation, or after `max_queue_retries` failures in a row."""
        while True:
            try:
                async with self._source.watching():
                    await self._fetch()
            except (PenstockError, TimeoutError) as problem:
                # The channel's name could not be asked for.
                await asyncio.sleep(self._failed(problem))

    async def last_claim(self) -> None:
        """Return when a claim that was under way has come in."""
        claiming = self._claiming
        if claiming is not None:
            await asyncio.wait([claiming])
            self._claiming = None
            if not claiming.cancelled() and claiming.exception() is None:
                self._hand_over(claiming.result())

    def abandon(self) -> None:
        if self._claiming is not None:
            self._claiming.cancel()

    async def _fetch(self) -> None:
        while True:
            try:
                await self._look()
            except (PenstockError, TimeoutError) as problem:
                # A listener that finds the database again wakes us before the pause is over.
                await self._source.sleep(self._failed(problem), self._runner.changed)

    async def _look(self) -> None:
        runner = self._runner
        await self._source.ready()
        count = runner.wanted()
        runner.freed.clear()
        runner.changed.clear()
        if count == 0:
            await runner.freed.wait()
            return
        self.looking = True
        try:
            await self._source.prepare()
            found = await self._claim(count)
        finally:
            self.looking = False
        await self._source.rest(found, count, runner.changed)

    async def _claim(self, count: int) -> Found:
        slots = list(self._runner.slots.values())
        self._claiming = asyncio.ensure_future(self._source.claim(count, slots))
        try:
            async with asyncio.timeout(self._options.queue_timeout.total_seconds()):
                # A stopping worker ends this loop, but not a claim that may have found something.
                found = await asyncio.shield(self._claiming)
        except TimeoutError:
            self._claiming.cancel()
            raise
        self._claiming = None
        self._failures, self.trouble = 0, None
        self._hand_over(found)
        return found

    def _hand_over(self, found: Found) -> None:
        if found.claims:
            self._runner.take(found)

    def _failed(self, problem: Exception) -> float:
        """Count a failure; returns how long to wait."""
        if isinstance(problem, ClientClosed):
            # A closed client is not opened again: the worker ends with this error.
            raise problem
        if self._claiming is not None and self._claiming.done():
            self._claiming = None
        self._failures += 1
        self.trouble = str(problem).partition("\n")[0] or type(problem).__name__
        self._source.tell_failure(problem)
        most = self._options.max_queue_retries
        if most is not None and self._failures > most:
            raise WorkerGaveUp(
                f"{self._source.title} could not be read {self._failures} times in a row; "
                f"the last time: {self.trouble}\n"
                "See that the database can be reached and the queue exists, then start the worker "
                "again; without max_queue_retries it would go on trying."
            ) from problem
        return error_pause(self._options, self._failures, random.random())  # noqa: S311 - no secret


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
            closed=self.quarantine.suspect is not None,
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
        if self.accepting and self.quarantine.suspect is None:
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
            if claim.stage is Stage.RUNNING:
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


@dataclass(frozen=True, slots=True)
class Review:
    extend: list[Claim]
    lost: list[Claim]


def review(held: Iterable[Claim], now: float, claim_for: float) -> Review:
    """Which claims to extend, and which have ended without an answer from the database."""
    extend: list[Claim] = []
    lost: list[Claim] = []
    for each in held:
        if each.finished:
            # By its handler, which may go on for as long as it likes: there is no claim any more.
            continue
        left = each.ends_at - now
        if left <= 0:
            lost.append(each)
        elif left <= claim_for * EXTEND_BELOW:
            extend.append(each)
    return Review(extend, lost)


class Heartbeat:
    """Reviews what a runner holds, several times in each claim's time."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self._source = runner.source
        self._claim_for = runner.source.claim_for

    async def run(self) -> None:
        """Never ends by itself: a call that fails is made again at the next review."""
        while True:
            await asyncio.sleep(self._claim_for / _REVIEWS)
            await self.once()

    async def once(self) -> None:
        """Extend what has less than half its time left."""
        found = review(self._runner.claims.values(), time.monotonic(), self._claim_for)
        for each in found.lost:
            self._runner.lose(each)
        if found.extend:
            await self._extend(found.extend)

    async def _extend(self, chosen: list[Claim]) -> None:
        try:
            async with asyncio.timeout(self._claim_for * EXTEND_BELOW / 2):
                kept = await self._source.extend(chosen)
        except (PenstockError, TimeoutError):
            return
        for each in chosen:
            # One that is being settled may just have been: its own answer will tell.
            if each not in kept and each.stage is not Stage.SETTLING and not each.finished:
                self._runner.lose(each)
        self._source.tell_extended(len(kept))


# How much to claim


@dataclass(frozen=True, slots=True)
class Load:
    """What a handler holds at one moment."""

    held: int
    """Claimed and not yet finished in the database: running, waiting, or on its way to be acked."""
    running: int
    waiting: int
    seconds: float | None
    """How long a message takes, on average; None: none has finished yet."""
    closed: bool = False
    """A message has to be handled alone in the worker: claim nothing."""


def waiting_room(options: Options, seconds: float | None) -> int:
    """How many messages may wait for a slot: as many as are worked off in a moment."""
    if seconds is None:
        return 0
    quickly = options.concurrency * WAIT_HORIZON_SECONDS / max(seconds, 1e-6)
    return min(options.most_waiting, int(quickly))


def wanted(options: Options, load: Load) -> int:
    """How many messages to claim now; 0: none, until something has finished."""
    if load.closed:
        return 0
    waiting_room_now = waiting_room(options, load.seconds)
    begun = load.running + load.waiting
    # A thread that outlived its message holds nothing, but still has its slot.
    room = options.concurrency + waiting_room_now - max(load.held, begun)
    idle_slots = begun < options.concurrency
    # Claims come in batches when the waiting room is half empty, not one by one.
    if not idle_slots and load.waiting > waiting_room_now // 2:
        return 0
    return max(0, min(room, options.most_claimed))
