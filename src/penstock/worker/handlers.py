"""Handlers: what was registered for a queue, and how it is called."""

from __future__ import annotations

import asyncio
import contextvars
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from penstock.client import calls
from penstock.errors import ClaimLost
from penstock.payloads import Codec, codec_for
from penstock.worker import signatures
from penstock.worker.middleware import Middleware, Next, wrapped
from penstock.worker.options import Options, RunIn
from penstock.worker.outcomes import ACKED, SETTLED, Outcome
from penstock.worker.processes import Slots

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from penstock.models import ClaimedMessage


class Kind(Enum):
    """The four ways in which a handler runs."""

    ASYNC = "async"
    TRANSACTIONAL = "transactional"
    THREAD = "thread"
    PROCESS = "process"


@dataclass(frozen=True, slots=True)
class Handler:
    """A function and the queue it serves."""

    queue: str
    function: Callable[..., Any]
    options: Options
    gate: Callable[[], Awaitable[None]] | None = None
    """Awaited before every look at the queue: nothing is claimed while it waits."""

    @property
    def kind(self) -> Kind:
        if self.options.transactional:
            return Kind.TRANSACTIONAL
        if signatures.is_async(self.function):
            return Kind.ASYNC
        return Kind.PROCESS if self.options.run_in is RunIn.PROCESS else Kind.THREAD

    @property
    def codec(self) -> Codec[Any]:
        return codec_for(self.options.payload_type)

    def __post_init__(self) -> None:
        signatures.check(self.function, self.options)
        _ = self.codec  # a type that can't be used is told now, not at the first message


class Invoker(Protocol):
    """Calls a handler for one message after the other."""

    settles: bool
    """What a call gives is the message's outcome; else it is of no use, and the message done."""

    def __call__(self, message: Any, record: ClaimedMessage) -> Awaitable[Any]:
        """Handle it; an exception is the handler's."""

    async def prepare(self) -> None:
        """Before a call whose time is limited: what should not count as the handler's time."""

    async def linger(self) -> None:
        """After a call that was cancelled: return when it no longer occupies its place."""

    async def close(self, *, at_once: bool) -> None: ...


def invoker_for(handler: Handler, layers: Sequence[Middleware], database: Any) -> Invoker:
    match handler.kind:
        case Kind.ASYNC:
            return _Async(wrapped(layers, handler.function))
        case Kind.TRANSACTIONAL:
            return _Transactional(handler, layers, database)
        case Kind.THREAD:
            return _Thread(handler, layers)
        case Kind.PROCESS:
            return _Process(handler, layers)


class _Async:
    settles = False

    def __init__(self, call: Next) -> None:
        self._call = call

    def __call__(self, message: Any, record: ClaimedMessage) -> Awaitable[Any]:  # noqa: ARG002
        return self._call(message)

    async def prepare(self) -> None:
        """Nothing to prepare."""

    async def linger(self) -> None:
        """A coroutine that was cancelled has ended."""

    async def close(self, *, at_once: bool) -> None:
        """Nothing to close."""


class _Transactional:
    """The handler's writes and the ack are one transaction; a lost claim rolls back both."""

    settles = True

    def __init__(self, handler: Handler, layers: Sequence[Middleware], database: Any) -> None:
        self._handler = handler
        self._layers = layers
        self._database = database

    async def __call__(self, message: Any, record: ClaimedMessage) -> Outcome:  # noqa: ARG002
        outcome = ACKED

        async def in_transaction(given: Any) -> Any:
            nonlocal outcome
            async with self._database.transaction() as connection:
                result = await self._handler.function(given, connection)
                await self._ack(message, connection)
            outcome = SETTLED
            return result

        await wrapped(self._layers, in_transaction)(message)
        return outcome

    async def _ack(self, message: Any, connection: Any) -> None:
        call = calls.ack(self._handler.queue, message.id, message.token)
        if not await self._database.run(call, connection=connection):
            raise ClaimLost(
                f"the claim on message {message.id} of queue {self._handler.queue!r} was lost, so "
                "the handler's writes were rolled back"
            )

    async def prepare(self) -> None:
        """Nothing to prepare."""

    async def linger(self) -> None:
        """A transaction that was cancelled has been rolled back."""

    async def close(self, *, at_once: bool) -> None:
        """Nothing to close."""


class _Thread:
    """A plain function gets the record, not the handle: it decides by returning or raising."""

    settles = False

    def __init__(self, handler: Handler, layers: Sequence[Middleware]) -> None:
        self._function = handler.function
        self._layers = layers
        self._executor = ThreadPoolExecutor(
            handler.options.concurrency, thread_name_prefix=f"penstock-{handler.queue}"
        )
        # A thread can't be stopped: one that was given up still occupies its place.
        self._left_running: dict[asyncio.Task[Any] | None, asyncio.Future[Any]] = {}

    async def __call__(self, message: Any, record: ClaimedMessage) -> None:
        async def in_thread(given: Any) -> Any:
            context = contextvars.copy_context()
            future = asyncio.get_running_loop().run_in_executor(
                self._executor, context.run, self._function, _plain(record, given)
            )
            try:
                return await asyncio.shield(future)
            except asyncio.CancelledError:
                self._left_running[asyncio.current_task()] = future
                raise

        await wrapped(self._layers, in_thread)(message)

    async def prepare(self) -> None:
        """Nothing to prepare."""

    async def linger(self) -> None:
        task = asyncio.current_task()
        if task in self._left_running:
            await asyncio.wait([self._left_running[task]])
            del self._left_running[task]

    async def close(self, *, at_once: bool) -> None:
        stuck = any(not future.done() for future in self._left_running.values())
        if at_once or stuck:
            self._executor.shutdown(wait=False, cancel_futures=True)
        else:
            await asyncio.to_thread(self._executor.shutdown)


class _Process:
    settles = False

    def __init__(self, handler: Handler, layers: Sequence[Middleware]) -> None:
        self._function = handler.function
        self._layers = layers
        self._slots = Slots(handler.options.concurrency)

    async def __call__(self, message: Any, record: ClaimedMessage) -> None:
        async def in_process(given: Any) -> Any:
            return await self._slots.run(self._function, _plain(record, given))

        await wrapped(self._layers, in_process)(message)

    async def prepare(self) -> None:
        await self._slots.prepare()

    async def linger(self) -> None:
        """A process that was given up has been killed."""

    async def close(self, *, at_once: bool) -> None:
        if at_once:
            self._slots.kill()
        else:
            await self._slots.close()


def _plain(record: ClaimedMessage, message: Any) -> ClaimedMessage:
    """The record with the payload as its type."""
    return msgspec.structs.replace(record, payload=message.payload)
