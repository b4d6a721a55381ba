"""`mq.consume(…)`: messages of one queue, one after the other, for as long as the caller likes.

A background loop claims; the caller's loop only takes from memory.  So a caller who is cancelled
while he waits loses nothing that was just claimed.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from penstock.backoff import backoff
from penstock.client import calls, consumer_options
from penstock.client._async.message import Message
from penstock.client.claimed_messages import ClaimedMessages
from penstock.client.consumer_options import Mode, Options
from penstock.client.values import claim_token, new_token
from penstock.errors import (
    ClientClosed,
    Conflict,
    DatabaseUnavailable,
    OutcomeUnknown,
    PayloadInvalid,
    PenstockError,
    StandbyServer,
)
from penstock.observe import events
from penstock.payloads import codec_for
from penstock.postgres._async.concurrency import Background, Event, Lock, monotonic
from penstock.postgres.session import Reach

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Sequence
    from types import TracebackType

    from penstock.client._async.client import Client
    from penstock.models import ClaimedMessage, MessageId
    from penstock.payloads import Codec

P = TypeVar("P")

# A claim under way when the consumer is closed gets this long to come back and be released.
_LAST_CLAIM_SECONDS = 5.0
# What passes: the database comes back, or the other transaction ends.
_PASSING = (DatabaseUnavailable, OutcomeUnknown, Conflict, StandbyServer)


class Consumer(Generic[P]):
    """Iterate over it, or take messages with `get()`; several tasks may share one.

    Left alone, a loop opens and closes the consumer.  As a context manager it can be used again
    and again, until its block ends.
    """

    def __init__(
        self, client: Client, queue: str, options: Options, payload_type: type[P] | None = None
    ) -> None:
        self._client = client
        self._options = options
        self._feeder: Feeder[P] = Feeder(client, queue, options, codec_for(payload_type))
        self._background = Background(self._feeder.run, f"penstock consumer of {queue}")
        self._lock = Lock()
        self._opened = self._closed = False

    async def get(self, timeout: timedelta | float | None = None) -> Message[P] | None:  # noqa: ASYNC109
        """The next message; None when none came in time, or the consumer was closed.

        A bare number is seconds.
        """
        await self.open()
        feeder = self._feeder
        if isinstance(timeout, timedelta):
            timeout = timeout.total_seconds()
        end = None if timeout is None else monotonic() + timeout
        while not self._closed:
            if (message := self._take()) is not None:
                return message
            if feeder.failure is not None:
                raise feeder.failure
            left = None if end is None else end - monotonic()
            if left is not None and left <= 0:
                break
            feeder.hungry = True
            feeder.asked.set()
            await feeder.arrived.wait(left)
            feeder.arrived.clear()
        if self._closed:
            feeder.arrived.set()
        return None

    def _take(self) -> Message[P] | None:
        feeder = self._feeder
        message = feeder.holding.take(monotonic())
        for lost in feeder.holding.lost():
            feeder.emit(events.Name.CLAIM_LOST, message_id=lost.id)
        if len(feeder.holding):
            # Another `get` may be waiting, and this one has consumed the signal.
            feeder.arrived.set()
        if len(feeder.holding) < self._options.prefetch:
            feeder.asked.set()
        return message

    async def __aiter__(self) -> AsyncIterator[Message[P]]:
        # A generator, because Python closes it when the loop is left, by `break` as by an error.
        ours = not self._opened
        try:
            while (message := await self.get()) is not None:
                yield message
        finally:
            if ours:
                await self.close()

    async def open(self) -> None:
        """Begin to claim; taking the first message does it too."""
        if not self._opened:
            self._opened = True
            self._client.consumers.add(self)
            self._background.start()

    async def close(self) -> None:
        """Stop claiming, and release what was claimed and not handed out."""
        async with self._lock:
            self._closed = True
            self._feeder.stop()
            try:
                await self._background.stop(_LAST_CLAIM_SECONDS)
                await self._feeder.release()
            finally:
                self._client.consumers.discard(self)
                # A waiting `get` finds the consumer closed, and wakes the next one.
                self._feeder.arrived.set()

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()


class Feeder(Generic[P]):
    """The loop behind a consumer: it claims, keeps claims alive, and sleeps on an empty queue.

    It fills `holding`, from which the consumer takes.
    """

    def __init__(self, client: Client, queue: str, options: Options, codec: Codec[P]) -> None:
        self.queue = queue
        self.holding: ClaimedMessages[Message[P]] = ClaimedMessages(
            options.claim_for.total_seconds()
        )
        self.arrived = Event()
        """There may be something to take, or the loop has ended."""
        self.asked = Event()
        """The caller has taken something, or wants more than there is."""
        self.hungry = False
        """The caller waits with empty hands."""
        self.failure: Exception | None = None
        """Why the loop ended, if it was not told to."""
        self._database = client.database
        self._options = options
        self._codec = codec
        self._consumer = new_token()
        self._claims = 1
        self._watch = client.listener.watch(calls.channel(queue))
        self._stopping = False
        self._looks = 0
        self._stragglers = consumer_options.Stragglers()
        self._promising = True
        self._failures = 0

    @property
    def _token(self) -> str:
        """The token of the next claim.

        Each claim that finds something has its own: a nack that is repeated after a lost answer
        must not fail the next claim on the same message.
        """
        return claim_token(self._consumer, self._claims)

    async def run(self) -> None:
        """Until `stop()`, or an error that does not pass."""
        try:
            if self._options.mode is Mode.POLL:
                await self._go_on()
            else:
                async with self._watch:
                    await self._go_on()
        except Exception as error:  # noqa: BLE001 - the caller gets it, in his own loop
            self.failure = error
        self.arrived.set()

    def stop(self) -> None:
        self._stopping = True
        self.asked.set()
        self._watch.wake()

    async def release(self) -> None:
        """Release the messages that were claimed and not handed out."""
        for token, ids in _by_token(self.holding.surrender()).items():
            try:
                await self._database.run(calls.release_many(self.queue, ids, token))
            except PenstockError as error:
                # Their claims end by themselves; that costs an attempt, and nothing is lost.
                self.emit(events.Name.CALL_FAILED, error_kind=type(error).__name__)
            else:
                self.emit(events.Name.MESSAGE_RELEASED, count=len(ids))

    def emit(self, name: events.Name, **about: Any) -> None:
        events.emit(events.Event(name, queue=self.queue, **about))

    async def _go_on(self) -> None:
        while not self._stopping:
            try:
                await self._step()
                self._failures = 0
            except ClientClosed:
                raise
            except _PASSING as error:
                self._failures += 1
                if self._failures == self._options.give_up_after:
                    raise
                pause = backoff(self._failures)
                self.emit(events.Name.CALL_RETRIED, seconds=pause, error_kind=type(error).__name__)
                await self._sleep(pause)

    async def _step(self) -> None:
        await self._look_after_claims()
        if not self._wants_more():
            await self.asked.wait(self._until_review())
            self.asked.clear()
        # A message is likely to be there: registering as waiting first would only cost time.
        elif not (self._promising and await self._claim()):
            await self._look_and_sleep()

    def _wants_more(self) -> bool:
        waiting = len(self.holding)
        return waiting < self._options.prefetch or (waiting == 0 and self.hungry)

    async def _look_and_sleep(self) -> None:
        options = self._options
        if options.mode is not Mode.POLL:
            # In this order nothing is missed: LISTEN, register, look once more, sleep.
            span = consumer_options.registration(consumer_options.longest_nap(options))
            await self._database.run(calls.start_waiting(self.queue, span, self._token))
            if self._stragglers.mark is None:
                self._stragglers.mark = await self._database.claim(calls.mark())
        if await self._claim():
            return
        outlook = await self._database.run(calls.outlook(self.queue))
        due_in = None if outlook.due_in is None else outlook.due_in.total_seconds()
        doubtful = self._stragglers.left(outlook.oldest_writer)
        pause = consumer_options.idle_pause(
            options, self._reach(), self._looks, due_in, doubtful=doubtful
        )
        self._looks += 1
        await self._sleep(pause)

    def _reach(self) -> Reach:
        if self._watch.reach is Reach.DEAF and self._options.mode is Mode.LISTEN:
            raise consumer_options.listen_impossible()
        return self._watch.reach

    async def _sleep(self, seconds: float) -> None:
        review = self._until_review()
        if not self._stopping:
            pause = seconds if review is None else min(seconds, review)
            self._promising = await self._watch.wait(pause)
            if self._promising:
                # If the line was lost, the server may have been, and our registration with it.
                self._stragglers.forget()

    async def _claim(self) -> bool:
        """Whether there was something, or may be: another claim held the queue."""
        options = self._options
        claimed_at, token = monotonic(), self._token
        rows = await self._database.claim(
            calls.consume_batch(self.queue, token, options.claim_for, options.batch_size)
        )
        self._promising = bool(rows)
        if isinstance(rows, calls.Busy):
            await self._sleep(consumer_options.FIRST_NAP)
            return True
        if not rows:
            return False
        self._claims += 1
        self.emit(events.Name.MESSAGE_CLAIMED, count=len(rows))
        self._looks = 0
        # A claim that finds something ends our registration.
        self._stragglers.forget()
        messages, misfits = self._read(rows, token)
        if messages:
            self.hungry = False
            self.holding.add(messages, claimed_at)
            self.arrived.set()
        for misfit, problem in misfits:
            await misfit.bury(str(problem))
        return True

    def _read(
        self, rows: Sequence[ClaimedMessage], token: str
    ) -> tuple[list[Message[P]], list[tuple[Message[P], PayloadInvalid]]]:
        """Messages whose payload fits its type, and the others with what is wrong."""
        messages: list[Message[P]] = []
        misfits: list[tuple[Message[P], PayloadInvalid]] = []
        for row in rows:
            message = Message(self._database, self.queue, token, row, self._codec)
            try:
                _ = message.payload
            except PayloadInvalid as problem:
                misfits.append((message, problem))
            else:
                messages.append(message)
        return messages, misfits

    def _until_review(self) -> float | None:
        at = self.holding.review_at()
        return None if at is None else max(0.0, at - monotonic())

    async def _look_after_claims(self) -> None:
        now = monotonic()
        if self.holding.stuck(now):
            # The caller has been busy with one message for a whole claim: others may be idle.
            await self.release()
            return
        for token, asked in _by_token(self.holding.to_extend(now)).items():
            call = calls.extend_many(self.queue, asked, token, self._options.claim_for)
            granted = {message_id for message_id, _ in await self._database.run(call)}
            self.holding.extended(frozenset(asked), granted)
            self.emit(events.Name.CLAIM_EXTENDED, count=len(granted))


def _by_token(messages: Iterable[Message[Any]]) -> dict[str, list[MessageId]]:
    """The ids of messages, by the claim that they came with."""
    found: dict[str, list[MessageId]] = {}
    for message in messages:
        found.setdefault(message.token, []).append(message.id)
    return found
