"""One handler at work: what it holds, and how its parts hand messages to each other."""

from __future__ import annotations

import asyncio
import secrets
from typing import TYPE_CHECKING, Any

from penstock.client import calls
from penstock.errors import PenstockError
from penstock.observe.events import Event, Name, emit, has_subscribers
from penstock.worker.acks import Settler
from penstock.worker.claims import Held, Keeper, Stage
from penstock.worker.dispatch import Dispatcher
from penstock.worker.fetching import Fetcher
from penstock.worker.handlers import Handler, invoker_for
from penstock.worker.message import WorkerMessage
from penstock.worker.outcomes import RELEASED, Outcome, Verdict
from penstock.worker.rhythm import Load
from penstock.worker.status import Counters, HandlerStatus

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from penstock.models import ClaimedMessage, MessageId
    from penstock.worker.acks import Answer
    from penstock.worker.middleware import Middleware
    from penstock.worker.solitude import Solitude

_HANDLED = (Verdict.ACK, Verdict.SETTLED)
_FAILED = (Verdict.RETRY, Verdict.BURY)


class Station:
    """Everything that serves one queue in one worker."""

    def __init__(
        self,
        handler: Handler,
        client: Any,
        layers: Sequence[Middleware],
        worker_name: str,
        solitude: Solitude,
    ) -> None:
        self.handler = handler
        self.queue = handler.queue
        self.counters = Counters()
        self._database = client.database
        # The name tells an operator which worker holds a claim; the rest makes the token unique.
        self.token = f"{worker_name[:80]}:{secrets.token_hex(8)}"
        self._solitude = solitude
        self._held: dict[MessageId, Held] = {}
        self._changed = asyncio.Event()
        """Something is not held any more."""
        self.invoker = invoker_for(handler, layers, self._database)
        self.settler = Settler(
            self._send,
            self._answered,
            enough=handler.options.most_claimed // 4,
            busy=lambda: self.dispatcher.waiting > 0,
        )
        self.fetcher = Fetcher(
            handler,
            client,
            self.token,
            load=self._load,
            deliver=self.deliver,
            failed=self._failed,
        )
        self.dispatcher = Dispatcher(
            handler,
            self.invoker,
            self._opened,
            self._ended,
            freed=self.fetcher.finished,
        )
        self.keeper = Keeper(
            self._database,
            queue=self.queue,
            token=self.token,
            claim_for=handler.options.claim_for,
            held=lambda: list(self._held.values()),
            lose=self._lose,
            extended=self._extended,
        )
        self.patience = handler.options.claim_for.total_seconds()
        """How long a suspect waits to be alone; then it is tried beside whatever still runs."""
        self._codec = handler.codec
        self.accepting = True

    def status(self) -> HandlerStatus:
        counted = self.counters
        return HandlerStatus(
            queue=self.queue,
            running=self.dispatcher.running,
            waiting=self.dispatcher.waiting,
            held=len(self._held),
            claimed=counted.claimed,
            acked=counted.acked,
            failed=counted.failed,
            dead=counted.dead,
            released=counted.released,
            lost=counted.lost,
            trouble=self.fetcher.trouble,
        )

    def release_waiting(self) -> None:
        """Give back what has not begun."""
        for held in self.dispatcher.drop_waiting():
            self.release(held)

    def release(self, held: Held) -> None:
        """Give back one that has not begun."""
        if not held.lost:
            self._settle(held, RELEASED)

    async def begin_attempt(self, held: Held) -> None:
        """Have a deferred attempt counted from now on, and give the message to its handler."""
        call = calls.begin_attempt(self.queue, held.id, self.token)
        try:
            holds = await self._database.claim(call)
        except PenstockError as problem:
            self._failed(problem)
            self.release(held)
            return
        if holds:
            self.dispatcher.take([held])
        else:
            self._lose(held)

    def release_running(self) -> list[asyncio.Task[None]]:
        """Cancel what runs and give it back; a thread can't be cancelled, its message is."""
        for held in list(self._held.values()):
            if held.stage is Stage.RUNNING:
                held.released = True
        return self.dispatcher.cancel()

    async def settled(self) -> None:
        """Return when nothing is held any more."""
        await self._until(lambda: not self._held)

    def empty(self, *, but: Held) -> bool:
        """Nothing is held or about to be, except perhaps that one."""
        return not self.fetcher.looking and all(each is but for each in self._held.values())

    async def without(self, held: Held) -> None:
        """Return when that one is not held any more."""
        await self._until(lambda: self._held.get(held.id) is not held)

    async def _until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            self._changed.clear()
            await self._changed.wait()

    # From the fetcher

    def _load(self) -> Load:
        running = self.dispatcher
        return Load(
            len(self._held),
            running.running,
            running.waiting,
            running.seconds,
            closed=self._solitude.taken,
        )

    def deliver(
        self,
        found: list[ClaimedMessage],
        ends_at: float,
        suspects: Collection[MessageId] = (),
    ) -> None:
        """Take what was claimed with this station's token; the claim ends then, at the earliest."""
        self.counters.claimed += len(found)
        self.counters.claims += 1
        emit(Event(Name.MESSAGE_CLAIMED, queue=self.queue, count=len(found)))
        batch = [Held(message, ends_at) for message in found]
        for held in batch:
            before = self._held.get(held.id)
            if before is not None:
                # Our earlier claim on it had ended before we knew, and both have the same token.  A
                # handler that still works on the earlier one must not settle the new one.
                self._lose(before)
            self._held[held.id] = held
        self._admit(batch, suspects)

    def _admit(self, batch: list[Held], suspects: Collection[MessageId]) -> None:
        """Start these messages; if one has to be handled alone, release the others."""
        if self.accepting and not self._solitude.taken:
            suspect = next((held for held in batch if held.id in suspects), None)
            if suspect is None:
                self.dispatcher.take(batch)
                return
            self._solitude.ask(self, suspect)
            batch.remove(suspect)
        for held in batch:
            self.release(held)

    def _failed(self, problem: Exception) -> None:
        emit(Event(Name.CALL_FAILED, queue=self.queue, error_kind=type(problem).__name__))

    # From the dispatcher

    def _opened(self, record: ClaimedMessage) -> WorkerMessage[Any]:
        message = WorkerMessage(self._database, self.queue, self.token, record, self._codec)
        message.finished = False
        # Read now: a handler is not called for a payload that does not fit its type.
        _ = message.payload
        return message

    def _ended(self, held: Held, outcome: Outcome | None, seconds: float) -> None:
        if held.lost or outcome is None:
            self._lose(held)
            return
        if has_subscribers():
            if outcome.verdict in _HANDLED:
                self._tell(Name.MESSAGE_HANDLED, held, seconds=seconds)
            elif outcome.verdict in _FAILED:
                self._tell(Name.MESSAGE_FAILED, held, seconds=seconds, error_kind=outcome.kind)
        self._settle(held, outcome)

    def _settle(self, held: Held, outcome: Outcome) -> None:
        held.stage = Stage.SETTLING
        if outcome.verdict in (Verdict.SETTLED, Verdict.BY_HANDLER):
            self._answered([held], outcome, {held.id: False})
        else:
            self.settler.add(held, outcome)

    # To the database, and back

    async def _send(self, outcome: Outcome, ids: list[MessageId]) -> Answer:
        queue, token, run = self.queue, self.token, self._database.run
        match outcome.verdict:
            case Verdict.ACK:
                return dict.fromkeys(await run(calls.ack_many(queue, ids, token)), False)
            case Verdict.RELEASE:
                return dict.fromkeys(await run(calls.release_many(queue, ids, token)), False)
            case Verdict.RETRY:
                call = calls.nack_many(queue, ids, token, delay=outcome.delay, error=outcome.error)
                answer: Answer = await run(call)
                return answer
            case Verdict.BURY:
                return {
                    each: True
                    for each in ids
                    if await run(calls.bury(queue, each, token, error=outcome.error))
                }
            case Verdict.SETTLED | Verdict.BY_HANDLER:
                return dict.fromkeys(ids, False)

    def _answered(self, batch: list[Held], outcome: Outcome, kept: Answer) -> None:
        for held in batch:
            dead = kept.get(held.id)
            if dead is None:
                self._lose(held)
                continue
            self._forget(held)
            if dead:
                self.counters.dead += 1
                self._tell(Name.MESSAGE_DEAD_LETTERED, held, error_kind=outcome.kind)
        self._count(outcome.verdict, len(kept))
        came_back = outcome.verdict in (Verdict.RETRY, Verdict.BY_HANDLER)
        keyed = any(held.message.key is not None for held in batch)
        self.fetcher.finished(look_again=came_back or keyed)

    def _count(self, verdict: Verdict, count: int) -> None:
        """What became of as many messages."""
        if count == 0:
            return
        match verdict:
            case Verdict.ACK | Verdict.SETTLED:
                self.counters.acked += count
                emit(Event(Name.MESSAGE_ACKED, queue=self.queue, count=count))
            case Verdict.RETRY:
                self.counters.failed += count
            case Verdict.RELEASE:
                self.counters.released += count
                emit(Event(Name.MESSAGE_RELEASED, queue=self.queue, count=count))
            case Verdict.BY_HANDLER:
                self.counters.by_handler += count
            case Verdict.BURY:
                """Counted as dead, one by one."""

    def _tell(
        self, name: Name, held: Held, *, seconds: float | None = None, error_kind: str | None = None
    ) -> None:
        emit(
            Event(
                name,
                queue=self.queue,
                message_id=held.id,
                attempt=held.message.attempt,
                seconds=seconds,
                error_kind=error_kind,
            )
        )

    # From the keeper

    def _lose(self, held: Held) -> None:
        """Its claim is gone: the handler is cancelled, and nothing it says counts any more."""
        first_known = self._held.get(held.id) is held
        held.lost = True
        self._forget(held)
        if first_known:
            self.counters.lost += 1
            self._tell(Name.CLAIM_LOST, held)
        # One that says so itself has ended already.
        if held.stage is Stage.RUNNING and held.task not in (None, asyncio.current_task()):
            held.task.cancel()
        self.fetcher.finished()

    def _forget(self, held: Held) -> None:
        if self._held.get(held.id) is held:
            del self._held[held.id]
            self._changed.set()

    def _extended(self, count: int) -> None:
        self.counters.extended += count
        emit(Event(Name.CLAIM_EXTENDED, queue=self.queue, count=count))
