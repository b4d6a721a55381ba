"""Messages of a queue: how a worker claims them, waits for more, and acks them."""

from __future__ import annotations

import asyncio
import math
import random
import secrets
import time
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from penstock.backoff import doubled
from penstock.client import calls
from penstock.client._async.message import Message
from penstock.client.consumer_options import LONGEST_REGISTERED, Mode, registration
from penstock.client.values import claim_token
from penstock.observe import events
from penstock.observe.events import Event, Name, emit
from penstock.postgres.session import Reach
from penstock.worker.invoke import Claim, Invoker, invoker_for
from penstock.worker.options import idle_pause
from penstock.worker.outcomes import Verdict
from penstock.worker.runner import EXTEND_BELOW, Found

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine, Iterator, Sequence
    from contextlib import AbstractContextManager

    from penstock.client._async.client import Client
    from penstock.models import ClaimedMessage
    from penstock.worker.handler import Handler
    from penstock.worker.invoke import Middleware, Slots
    from penstock.worker.outcomes import Outcome
    from penstock.worker.runner import Answer, Ended

P = TypeVar("P")

# After a look in vain that something should have been found in: a lock, or a key that is busy.
_BLOCKED_PAUSE_SECONDS = 0.02
_LARGEST_CALL = 1000
_HANDLED = (Verdict.ACK, Verdict.SETTLED)
_FAILED = (Verdict.RETRY, Verdict.BURY)


class WorkerMessage(Message[P]):
    """What a handler gets.  `ack()`, `nack()` and the like work as everywhere; the worker then says
    nothing more, and lets the handler finish."""

    __slots__ = ("claim",)

    claim: Claim

    async def ack(self, connection: Any = None) -> bool:
        return await self._finish(super().ack(connection))

    async def nack(
        self,
        delay: timedelta | None = None,
        error: str | BaseException | None = None,
        *,
        connection: Any = None,
    ) -> bool:
        return await self._finish(super().nack(delay, error, connection=connection))

    async def release(self, *, connection: Any = None) -> bool:
        return await self._finish(super().release(connection=connection))

    async def bury(
        self, error: str | BaseException | None = None, *, connection: Any = None
    ) -> bool:
        return await self._finish(super().bury(error, connection=connection))

    async def _finish(self, telling: Coroutine[Any, Any, bool]) -> bool:
        # Before the answer: a heartbeat may learn first that the claim is gone.
        claim = self.claim
        before, claim.finished = claim.finished, True
        held = False
        try:
            held = await telling
        finally:
            claim.finished = held or before
        return held


class QueueSource:
    """One queue, as the runner of one handler sees it."""

    gathers = True
    # One after the other: what gathers meanwhile makes the next call larger.
    most_calls = 1
    refusals: tuple[type[Exception], ...] = ()

    def __init__(self, handler: Handler, client: Client, worker_name: str) -> None:
        self.queue = handler.queue
        self.title = f"queue {handler.queue!r}"
        self.claim_for = handler.options.claim_for.total_seconds()
        self._handler = handler
        self._options = handler.options
        self._client = client
        self._database = client.database
        self._codec = handler.codec
        # The engine takes whole seconds.
        self._extension = math.ceil(self.claim_for * EXTEND_BELOW)
        # The name tells an operator which worker holds a claim; the rest makes the token unique.
        self._consumer = f"{worker_name[:80]}:{secrets.token_hex(8)}"
        self._claims = 1
        self._watch: Any = None
        longest = min(self._options.longest_pause.total_seconds(), LONGEST_REGISTERED)
        self._registered_for = registration(longest)
        self._mark: int | None = None
        """Drawn after we registered, as `Stragglers` of the client explains; None: not yet."""
        self.idle_looks = 0
        """Looks in vain since the last message."""

    @property
    def token(self) -> str:
        """The token of the next claim.

        Each claim that finds something has its own: a nack that is repeated after a lost answer
        must not fail the next claim on the same message.
        """
        return claim_token(self._consumer, self._claims)

    # From the wake-up to the claim

    @asynccontextmanager
    async def watching(self) -> AsyncIterator[None]:
        if self._options.mode is Mode.POLL or self._client.settings.pooler:
            # A worker that could claim but not ack would only hold up messages: see that the pool
            # of its acks has a connection first.  (A watch asks there as well.)
            await self._database.run(calls.channel(self.queue))
            yield
            return
        async with self._client.listener.watch(calls.channel(self.queue)) as watch:
            self._watch = watch
            try:
                yield
            finally:
                self._watch = None

    async def ready(self) -> None:
        if self._handler.gate is not None:
            await self._handler.gate()

    @property
    def _hears(self) -> bool:
        return self._watch is not None and self._watch.reach is Reach.HEARING

    async def prepare(self) -> None:
        if not (self.idle_looks and self._hears):
            return
        # The claim that finds something has the same token, and ends the registration.
        call = calls.start_waiting(self.queue, self._registered_for, self.token)
        await self._database.claim(call)
        if self._mark is None:
            self._mark = await self._database.claim(calls.mark())

    async def claim(self, count: int, slots: Sequence[Slots]) -> Found:
        # The claim's time runs from the moment at which it was sent, at the earliest.
        ends_at = time.monotonic() + self.claim_for
        token = self.token
        call = calls.consume_deferring(self.queue, token, self._options.claim_for, count)
        rows = await self._database.claim(call)
        if not rows.messages:
            return Found([], busy=isinstance(rows.messages, calls.Busy))
        self._claims += 1
        (own,) = slots
        claims = [Claim(row, token, ends_at, own, row.key is not None) for row in rows.messages]
        return Found(claims, [each for each in claims if each.id in rows.suspects])

    async def rest(self, found: Found, count: int, changed: asyncio.Event) -> None:
        if found.claims:
            # Fewer than asked for: the queue is empty now, and the next look registers first.
            self.idle_looks = int(len(found.claims) < count)
            # Finding something has ended our registration.
            self._mark = None
        elif found.busy:
            # Another claim held the queue, and this one has waited for it.
            await self.sleep(_BLOCKED_PAUSE_SECONDS, changed)
        elif self.idle_looks == 0:
            self.idle_looks = 1
        else:
            await self._sleep(changed)

    async def _sleep(self, changed: asyncio.Event) -> None:
        """Sleep until something is due, or a wake-up, or the next look."""
        hears = self._hears
        outlook = await self._database.claim(calls.outlook(self.queue))
        due_in = None if outlook.due_in is None else outlook.due_in.total_seconds()
        if due_in is not None and due_in <= 0:
            due_in = doubled(_BLOCKED_PAUSE_SECONDS, self.idle_looks, math.inf)
        luck = random.random()  # noqa: S311 - no secret
        # A publisher that began before our mark may commit without waking us.
        doubtful = hears and (self._mark is None or outlook.oldest_writer < self._mark)
        pause = idle_pause(
            self._options, self.idle_looks, due_in, luck, hears=hears, doubtful=doubtful
        )
        self.idle_looks += 1
        if await self.sleep(pause, changed):
            # Something is likely to be there: registering anew first would only cost time.
            self.idle_looks = 0
            # If the line was lost, the server may have been, and our registration with it.
            self._mark = None

    async def sleep(self, seconds: float, changed: asyncio.Event) -> bool:
        waits = [asyncio.ensure_future(changed.wait())]
        if self._watch is not None:
            waits.append(asyncio.ensure_future(self._watch.wait(seconds)))
        try:
            ended, _ = await asyncio.wait(
                waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED
            )
            return any(wait.result() for wait in ended)
        finally:
            for wait in waits:
                wait.cancel()
            await asyncio.gather(*waits, return_exceptions=True)

    # From the claim to the ack

    def invoker(self, handler: Handler, layers: Sequence[Middleware]) -> Invoker:
        return invoker_for(handler, layers, self._database)

    def message(self, claim: Claim) -> WorkerMessage[Any]:
        message = WorkerMessage(self._database, self.queue, claim.token, claim.record, self._codec)
        message.claim = claim
        # Read now: a handler is not called for a payload that does not fit its type.
        _ = message.payload
        return message

    def span(self, claim: Claim) -> AbstractContextManager[None]:
        record: ClaimedMessage = claim.record
        return events.processing(self.queue, record.id, record.attempt, record.headers)

    async def begin_attempt(self, claim: Claim) -> bool:
        call = calls.begin_attempt(self.queue, claim.id, claim.token)
        return await self._database.claim(call)

    def batches(self, ended: list[Ended]) -> Iterator[list[Ended]]:
        """Equal outcomes of one claim together, in the order of their first."""
        groups: dict[tuple[str, Outcome], list[Ended]] = {}
        token: str | None = None
        outcome: Outcome | None = None
        members: list[Ended] = []
        for each in ended:
            claim = each[0]
            if claim.token is not token or each[1] is not outcome:
                # Most follow one of their kind, so most need not be looked up.
                token, outcome = claim.token, each[1]
                members = groups.setdefault((token, outcome), [])
            if not claim.lost:
                members.append(each)
        for members in groups.values():
            for start in range(0, len(members), _LARGEST_CALL):
                yield members[start : start + _LARGEST_CALL]

    async def settle(self, batch: list[Ended]) -> Answer:
        first, outcome = batch[0]
        by_id = {claim.id: claim for claim, _ in batch}
        queue, token, ids, run = self.queue, first.token, list(by_id), self._database.run
        match outcome.verdict:
            case Verdict.ACK:
                kept = await run(calls.ack_many(queue, ids, token))
                return {by_id[each]: False for each in kept}
            case Verdict.RELEASE:
                kept = await run(calls.release_many(queue, ids, token))
                return {by_id[each]: False for each in kept}
            case Verdict.RETRY:
                call = calls.nack_many(queue, ids, token, delay=outcome.delay, error=outcome.error)
                return {by_id[each]: dead for each, dead in (await run(call)).items()}
            case Verdict.BURY:
                return {
                    claim: True
                    for claim, _ in batch
                    if await run(calls.bury(queue, claim.id, token, error=outcome.error))
                }
            case Verdict.SETTLED | Verdict.BY_HANDLER:
                return {claim: False for claim, _ in batch}

    async def extend(self, claims: list[Claim]) -> set[Claim]:
        by_token: dict[str, dict[int, Claim]] = {}
        for claim in claims:
            by_token.setdefault(claim.token, {})[claim.id] = claim
        kept: set[Claim] = set()
        span = timedelta(seconds=self._extension)
        for token, by_id in by_token.items():
            call = calls.extend_many(self.queue, list(by_id), token, span)
            # Not durable, as the claim itself, and not on the connections that handlers may hold.
            for message_id, _ in await self._database.claim(call):
                claim = by_id[message_id]
                claim.ends_at += self._extension
                kept.add(claim)
        return kept

    # What it tells subscribers

    def tell_claimed(self, count: int) -> None:
        emit(Event(Name.MESSAGE_CLAIMED, queue=self.queue, count=count))

    def tell_ended(self, claim: Claim, outcome: Outcome) -> None:
        if outcome.verdict in _HANDLED:
            self._tell(Name.MESSAGE_HANDLED, claim, seconds=claim.seconds)
        elif outcome.verdict in _FAILED:
            self._tell(Name.MESSAGE_FAILED, claim, seconds=claim.seconds, error_kind=outcome.kind)

    def tell_settled(self, batch: list[Ended], kept: Answer) -> None:
        outcome = batch[0][1]
        if not kept:
            return
        match outcome.verdict:
            case Verdict.ACK | Verdict.SETTLED:
                emit(Event(Name.MESSAGE_ACKED, queue=self.queue, count=len(kept)))
            case Verdict.RELEASE:
                emit(Event(Name.MESSAGE_RELEASED, queue=self.queue, count=len(kept)))
            case Verdict.RETRY | Verdict.BURY:
                for claim, dead in kept.items():
                    if dead:
                        self._tell(Name.MESSAGE_DEAD_LETTERED, claim, error_kind=outcome.kind)
            case Verdict.BY_HANDLER:
                """The message itself has told."""

    def tell_extended(self, count: int) -> None:
        emit(Event(Name.CLAIM_EXTENDED, queue=self.queue, count=count))

    def tell_lost(self, claim: Claim) -> None:
        self._tell(Name.CLAIM_LOST, claim)

    def tell_failure(self, problem: Exception) -> None:
        emit(Event(Name.CALL_FAILED, queue=self.queue, error_kind=type(problem).__name__))

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
                queue=self.queue,
                message_id=claim.id,
                attempt=claim.record.attempt,
                seconds=seconds,
                error_kind=error_kind,
            )
        )
