"""One handler at work: what it holds, and how its parts hand messages to each other."""

from __future__ import annotations

import asyncio
import secrets
from typing import TYPE_CHECKING, Any

from penstock.client import calls
from penstock.observe.events import Event, Name, emit
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
    from collections.abc import Collection, Sequence

    from penstock.models import ClaimedMessage, MessageId
    from penstock.worker.middleware import Middleware


class Station:
    """Everything that serves one queue in one worker."""

    def __init__(
        self, handler: Handler, client: Any, layers: Sequence[Middleware], worker_name: str
    ) -> None:
        self.handler = handler
        self.queue = handler.queue
        self.counters = Counters()
        self._database = client.database
        # The name tells an operator whose claim it is, the rest makes it nobody else's.
        self.token = f"{worker_name[:80]}:{secrets.token_hex(8)}"
        self._held: dict[MessageId, Held] = {}
        self.invoker = invoker_for(handler, layers, self._database)
        self.settler = Settler(self._send, self._answered)
        self.fetcher = Fetcher(
            handler,
            client,
            self.token,
            load=self._load,
            deliver=self._deliver,
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
            self._settle(held, RELEASED)

    def release_running(self) -> list[asyncio.Task[None]]:
        """Cancel what runs and give it back; a thread can't be cancelled, its message is."""
        for held in list(self._held.values()):
            if held.stage is Stage.RUNNING:
                held.released = True
        return self.dispatcher.cancel()

    # From the fetcher

    def _load(self) -> Load:
        running = self.dispatcher
        return Load(len(self._held), running.running, running.waiting, running.seconds)

    def _deliver(self, found: list[ClaimedMessage], ends_at: float) -> None:
        self.counters.claimed += len(found)
        self.counters.claims += 1
        emit(Event(Name.MESSAGE_CLAIMED, queue=self.queue, count=len(found)))
        batch = [Held(message, ends_at) for message in found]
        for held in batch:
            before = self._held.get(held.id)
            if before is not None:
                # Our own claim on it had ended before we knew, and the token is the same: whoever
                # still works on it must not finish what is now handed out anew.
                self._lose(before)
            self._held[held.id] = held
        if self.accepting:
            self.dispatcher.take(batch)
        else:
            for held in batch:
                self._settle(held, RELEASED)

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
        record = held.message
        match outcome.verdict:
            case Verdict.ACK | Verdict.SETTLED:
                emit(
                    Event(
                        Name.MESSAGE_HANDLED,
                        queue=self.queue,
                        message_id=record.id,
                        attempt=record.attempt,
                        seconds=seconds,
                    )
                )
            case Verdict.RETRY | Verdict.BURY:
                emit(
                    Event(
                        Name.MESSAGE_FAILED,
                        queue=self.queue,
                        message_id=record.id,
                        attempt=record.attempt,
                        seconds=seconds,
                        error_kind=outcome.kind,
                    )
                )
            case Verdict.RELEASE | Verdict.BY_HANDLER:
                pass
        self._settle(held, outcome)

    def _settle(self, held: Held, outcome: Outcome) -> None:
        held.stage = Stage.SETTLING
        if outcome.verdict in (Verdict.SETTLED, Verdict.BY_HANDLER):
            self._answered([held], outcome, [held.id])
        else:
            self.settler.add(held, outcome)

    # To the database, and back

    async def _send(self, outcome: Outcome, ids: list[MessageId]) -> Collection[MessageId]:
        queue, token, run = self.queue, self.token, self._database.run
        match outcome.verdict:
            case Verdict.ACK:
                return set(await run(calls.ack_many(queue, ids, token)))
            case Verdict.RELEASE:
                return set(await run(calls.release_many(queue, ids, token)))
            case Verdict.RETRY:
                call = calls.nack_many(queue, ids, token, delay=outcome.delay, error=outcome.error)
                return set(await run(call))
            case Verdict.BURY:
                return [
                    each
                    for each in ids
                    if await run(calls.bury(queue, each, token, error=outcome.error))
                ]
            case Verdict.SETTLED | Verdict.BY_HANDLER:
                return ids

    def _answered(self, batch: list[Held], outcome: Outcome, kept: Collection[MessageId]) -> None:
        for held in batch:
            if held.id not in kept:
                self._lose(held)
            else:
                self._forget(held)
                self._count(held, outcome)
        if kept and outcome.verdict in (Verdict.ACK, Verdict.SETTLED):
            emit(Event(Name.MESSAGE_ACKED, queue=self.queue, count=len(kept)))
        elif kept and outcome.verdict is Verdict.RELEASE:
            emit(Event(Name.MESSAGE_RELEASED, queue=self.queue, count=len(kept)))
        came_back = outcome.verdict in (Verdict.RETRY, Verdict.BY_HANDLER)
        keyed = any(held.message.key is not None for held in batch)
        self.fetcher.finished(look_again=came_back or keyed)

    def _count(self, held: Held, outcome: Outcome) -> None:
        match outcome.verdict:
            case Verdict.ACK | Verdict.SETTLED:
                self.counters.acked += 1
            case Verdict.RETRY:
                self.counters.failed += 1
            case Verdict.RELEASE:
                self.counters.released += 1
            case Verdict.BY_HANDLER:
                self.counters.by_handler += 1
            case Verdict.BURY:
                self.counters.dead += 1
                emit(
                    Event(
                        Name.MESSAGE_DEAD_LETTERED,
                        queue=self.queue,
                        message_id=held.id,
                        attempt=held.message.attempt,
                        error_kind=outcome.kind,
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
            emit(Event(Name.CLAIM_LOST, queue=self.queue, message_id=held.id))
        # One that says so itself has ended already.
        if held.stage is Stage.RUNNING and held.task not in (None, asyncio.current_task()):
            held.task.cancel()
        self.fetcher.finished()

    def _forget(self, held: Held) -> None:
        if self._held.get(held.id) is held:
            del self._held[held.id]

    def _extended(self, count: int) -> None:
        self.counters.extended += count
        emit(Event(Name.CLAIM_EXTENDED, queue=self.queue, count=count))
