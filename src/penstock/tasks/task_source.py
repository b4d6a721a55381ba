"""Tasks of a store: how a worker reserves them, waits for more, acks and retries them."""

from __future__ import annotations

import asyncio
import json
import random
import time
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from penstock.backoff import doubled
from penstock.observe.events import Event, Name, emit
from penstock.tasks.errors import InvalidTask, LeaseLost, TaskNotFound, TaskTooLarge
from penstock.tasks.task import Status
from penstock.worker.invoke import Claim, Invoker, invoker_for
from penstock.worker.outcomes import ACKED, Dead, Outcome, Verdict
from penstock.worker.runner import Found

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence

    from penstock.tasks.options import Policy
    from penstock.tasks.store import TaskStore
    from penstock.tasks.task import Task
    from penstock.worker.handler import Handler
    from penstock.worker.invoke import Middleware, Slots
    from penstock.worker.runner import Answer, Ended

T = TypeVar("T")

STOPPED = "the worker stopped before the handler had finished"
_FIRST_PAUSE_SECONDS = 0.05
# Calls at the same time: few, because handlers may use the same store.
_MOST_CALLS = 8
_LARGEST_EXPONENT = 60


@dataclass(frozen=True, slots=True)
class Backoff:
    """1 s, 2 s, 4 s … up to 5 min, each up to a fifth more or less: many fail at the same time."""

    base: timedelta = timedelta(seconds=1)
    longest: timedelta = timedelta(minutes=5)
    factor: float = 2.0
    jitter: float = 0.2

    def __post_init__(self) -> None:
        if not 0 <= self.jitter <= 1:
            raise InvalidTask(f"jitter is {self.jitter}: a share from 0 to 1 is needed")
        if self.factor < 1 or self.base < timedelta(0):
            raise InvalidTask("a backoff's factor is at least 1, and its base not negative")

    def delay(self, attempt: int, luck: float | None = None) -> timedelta:
        """The pause after this attempt, the first being 1; `luck` from 0 to 1 fixes the jitter."""
        luck = random.random() if luck is None else luck  # noqa: S311 - no secret
        growth = self.factor ** min(max(attempt, 1) - 1, _LARGEST_EXPONENT)
        # Seconds as a float, which has room for what a timedelta has not.
        seconds = min(self.longest.total_seconds(), self.base.total_seconds() * growth)
        return timedelta(seconds=seconds) * (1 - self.jitter + 2 * self.jitter * luck)


class TaskSource:
    """A store, as the runner of all handlers sees it."""

    title = "the task store"
    gathers = False
    # As many as a store may have connections: each ack is a call of its own.
    most_calls = 32
    refusals: tuple[type[Exception], ...] = (InvalidTask, TaskTooLarge, TaskNotFound)

    def __init__(
        self,
        store: TaskStore,
        owner: str,
        *,
        lease: timedelta,
        polling_interval: timedelta,
        policy: Policy,
        backoff: Backoff,
        tenant_id: str | None,
    ) -> None:
        self.claim_for = lease.total_seconds()
        self._store = store
        self._owner = owner
        self._lease = lease
        self._polling_interval = polling_interval
        self._policy = policy
        self._backoff = backoff
        self._tenant_id = tenant_id
        self._looks = 0

    # From the wake-up to the claim

    @asynccontextmanager
    async def watching(self) -> AsyncIterator[None]:
        # The store listens by itself, for as long as it is open.
        yield

    async def ready(self) -> None:
        """The store may always be looked at."""

    async def prepare(self) -> None:
        """The store registers by itself when it is waited for."""

    async def claim(self, count: int, slots: Sequence[Slots]) -> Found:
        free = {each.handler.queue: each for each in slots if each.free > 0}
        if not free:
            return Found([])
        # The lease's time runs from the moment at which it was asked for, at the earliest.
        ends_at = time.monotonic() + self.claim_for
        tasks = await self._store.reserve(
            self._owner,
            topics=list(free),
            tenant_id=self._tenant_id,
            # All of them may be of one topic: no more than each handler has slots.
            limit=min(count, *(each.free for each in free.values())),
            lease=self._lease,
            policy=self._policy,
        )
        claims: list[Claim] = []
        for task in tasks:
            if task.topic in free:
                claims.append(Claim(task, task.lease, ends_at, free[task.topic]))
            else:
                # A table whose collation takes Mail for mail: another worker may know the topic.
                await self._store.release(task.lease, delay=self._polling_interval, counts=False)
        return Found(claims)

    async def rest(self, found: Found, count: int, changed: asyncio.Event) -> None:  # noqa: ARG002
        self._looks = 0 if found.claims else self._looks + 1
        # Woken: look again at once, and begin with short pauses if it was in vain.
        if self._looks and await self.sleep(self.pause(self._looks), changed):
            self._looks = 1

    def pause(self, looks: int) -> float:
        """Longer and longer, up to the polling interval, and not in step with other workers."""
        longest = self._polling_interval.total_seconds()
        grown = doubled(_FIRST_PAUSE_SECONDS, looks - 1, longest)
        return grown * random.uniform(0.9, 1)  # noqa: S311 - no secret

    async def sleep(self, seconds: float, changed: asyncio.Event) -> bool:
        waits: list[asyncio.Future[Any]] = [
            asyncio.ensure_future(self._store.wait(timedelta(seconds=seconds))),
            asyncio.ensure_future(changed.wait()),
        ]
        try:
            ended, _ = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            return any(wait.result() for wait in ended)
        finally:
            for wait in waits:
                wait.cancel()
            await asyncio.gather(*waits, return_exceptions=True)

    # From the claim to the ack

    def invoker(self, handler: Handler, layers: Sequence[Middleware]) -> Invoker:
        made = invoker_for(handler, layers)
        return _KeepsResult(made) if handler.keep_result else made

    def message(self, claim: Claim) -> Task:
        task: Task = claim.record
        return task

    def span(self, claim: Claim) -> AbstractContextManager[None]:  # noqa: ARG002
        return nullcontext()

    async def begin_attempt(self, claim: Claim) -> bool:  # noqa: ARG002
        # A reserve has counted it.
        return True

    def batches(self, ended: list[Ended]) -> Iterable[list[Ended]]:
        return [[each] for each in ended if not each[0].lost]

    async def settle(self, batch: list[Ended]) -> Answer:
        [(claim, outcome)] = batch
        try:
            return {claim: await self._settle(claim, outcome)}
        except LeaseLost:
            return {}

    async def _settle(self, claim: Claim, outcome: Outcome) -> bool:
        """Whether the task is dead."""
        store, lease = self._store, claim.token
        match outcome.verdict:
            case Verdict.ACK:
                await store.ack(lease, result=outcome.result)
            case Verdict.RELEASE:
                await store.release(lease, reason=STOPPED, counts=False)
            case Verdict.RETRY:
                delay = outcome.delay
                if delay is None:
                    delay = self._backoff.delay(lease.attempt)
                status = await store.release(lease, delay=delay, reason=outcome.error)
                return status is Status.DEAD
            case Verdict.BURY:
                await store.move_to_dlq(lease, outcome.error or "")
                return True
            case Verdict.SETTLED | Verdict.BY_HANDLER:
                """Nothing more to say."""
        return False

    async def extend(self, claims: list[Claim]) -> set[Claim]:
        kept: set[Claim] = set()

        async def extend_one(claim: Claim) -> None:
            sent_at = time.monotonic()
            try:
                claim.token = await self._store.extend_lease(claim.token, self._lease)
            except LeaseLost:
                return
            claim.ends_at = sent_at + self.claim_for
            kept.add(claim)

        await _each(claims, extend_one)
        return kept

    # What it tells subscribers

    def tell_claimed(self, count: int) -> None:
        emit(Event(Name.TASK_RESERVED, count=count, worker=self._owner))

    def tell_ended(self, claim: Claim, outcome: Outcome) -> None:
        """Told when it is stored: only then is it known whether the task is dead."""

    def tell_settled(self, batch: list[Ended], kept: Answer) -> None:
        for claim, outcome in batch:
            dead = kept.get(claim)
            if dead is None:
                continue
            match outcome.verdict:
                case Verdict.ACK:
                    self._tell(Name.TASK_DONE, claim, seconds=claim.seconds)
                case Verdict.RELEASE:
                    self._tell(Name.TASK_RELEASED, claim)
                case Verdict.RETRY | Verdict.BURY:
                    name = Name.TASK_DEAD_LETTERED if dead else Name.TASK_FAILED
                    self._tell(name, claim, seconds=claim.seconds, error_kind=outcome.kind)
                case Verdict.SETTLED | Verdict.BY_HANDLER:
                    """A store has neither."""

    def tell_extended(self, count: int) -> None:
        """Tasks have no event for it."""

    def tell_lost(self, claim: Claim) -> None:
        self._tell(Name.LEASE_LOST, claim)

    def tell_failure(self, problem: Exception) -> None:
        emit(Event(Name.CALL_FAILED, worker=self._owner, error_kind=type(problem).__name__))

    def _tell(
        self,
        name: Name,
        claim: Claim,
        *,
        seconds: float | None = None,
        error_kind: str | None = None,
    ) -> None:
        emit(
            Event(
                name,
                topic=claim.record.topic,
                task_id=claim.id,
                attempt=claim.token.attempt,
                seconds=seconds,
                error_kind=error_kind,
            )
        )


class _KeepsResult:
    """Calls a handler, and has what it returns stored with its task."""

    settles = True

    def __init__(self, inner: Invoker) -> None:
        self._inner = inner
        self.prepare = inner.prepare
        self.linger = inner.linger
        self.close = inner.close

    async def __call__(self, message: Any, record: Any) -> Outcome:
        result = await self._inner(message, record)
        return ACKED if result is None else Outcome(Verdict.ACK, result=encoded_result(result))


def encoded_result(value: Any) -> bytes:
    """Bytes as they are, anything else as JSON."""
    if isinstance(value, bytes):
        return value
    try:
        return json.dumps(value).encode()
    except (TypeError, ValueError, RecursionError) as problem:
        # Another attempt would do the work again, and return the same.
        raise Dead(
            "the handler's result can't be written as JSON, and another attempt would return the "
            f"same: {problem}"
        ) from problem


async def _each(items: Sequence[T], work: Callable[[T], Awaitable[None]]) -> None:
    """Do the work for all of them, a few at a time."""
    left = iter(items)

    async def one_after_the_other() -> None:
        for item in left:
            await work(item)

    await asyncio.gather(*(one_after_the_other() for _ in range(min(_MOST_CALLS, len(items)))))
