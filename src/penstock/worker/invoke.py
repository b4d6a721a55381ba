"""Calling a handler: as a coroutine, in a transaction, in a thread or in a process of its own.

Middleware goes around each of them, the first given outermost.
"""

from __future__ import annotations

import asyncio
import contextvars
import multiprocessing
import os
import pickle
import signal
import threading
import traceback
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

import msgspec

from penstock.client import calls
from penstock.client.lent_connection import lent
from penstock.errors import ClaimLost, ProcessDied
from penstock.worker.handler import Handler, Kind
from penstock.worker.outcomes import (
    ACKED,
    SETTLED,
    Dead,
    FailedElsewhere,
    Outcome,
    outcome_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

Next: TypeAlias = Callable[[Any], Awaitable[Any]]
"""What a layer calls to go further in: `await call_next(message)`."""

Middleware: TypeAlias = Callable[[Any, Next], Awaitable[Any]]
"""`async def layer(message, call_next)`.  What it raises counts as the handler's own."""


def wrapped(layers: Sequence[Middleware], innermost: Next) -> Next:
    """The handler with its layers around it; without layers, the handler itself."""
    call = innermost
    for layer in reversed(layers):
        call = partial(_through, layer, call)
    return call


async def _through(layer: Middleware, call_next: Next, message: Any) -> Any:
    return await layer(message, call_next)


class Invoker(Protocol):
    """Calls a handler for one message after the other."""

    settles: bool
    """What a call gives is the message's outcome; else it is of no use, and the message done."""

    def __call__(self, message: Any, record: Any) -> Awaitable[Any]:
        """Handle it; an exception is the handler's."""

    async def prepare(self) -> None:
        """Before a call whose time is limited: what should not count as the handler's time."""

    async def linger(self) -> None:
        """After a call that was cancelled: return when it no longer occupies its place."""

    async def close(self, *, at_once: bool) -> None: ...


def invoker_for(handler: Handler, layers: Sequence[Middleware], database: Any = None) -> Invoker:
    """What calls this handler; `database`: where transactions are."""
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

    def __call__(self, message: Any, record: Any) -> Awaitable[Any]:  # noqa: ARG002
        return self._call(message)

    async def prepare(self) -> None:
        """Nothing to prepare."""

    async def linger(self) -> None:
        """A coroutine that was cancelled has ended."""

    async def close(self, *, at_once: bool) -> None:
        """Nothing to close."""


class _Transactional:
    """The handler's writes and the ack are one transaction; a lost claim rolls back both.

    What the handler publishes without `connection=` joins the transaction: a second connection for
    it might never come free, when all are held by handlers that wait for one.
    """

    settles = True

    def __init__(self, handler: Handler, layers: Sequence[Middleware], database: Any) -> None:
        self._handler = handler
        self._layers = layers
        self._database = database

    async def __call__(self, message: Any, record: Any) -> Outcome:  # noqa: ARG002
        outcome = ACKED

        async def in_transaction(given: Any) -> Any:
            nonlocal outcome
            async with self._database.transaction() as connection:
                with lent(self._database, connection):
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
        # Threads of its own: those of `asyncio.to_thread` are few, and other code uses them too.
        self._executor = ThreadPoolExecutor(
            handler.options.concurrency, thread_name_prefix=f"penstock-{handler.queue}"
        )
        # A thread can't be stopped: one that was given up still occupies its place.
        self._left_running: dict[asyncio.Task[Any] | None, asyncio.Future[Any]] = {}

    async def __call__(self, message: Any, record: Any) -> Any:
        async def in_thread(given: Any) -> Any:
            context = contextvars.copy_context()
            future = asyncio.get_running_loop().run_in_executor(
                self._executor, context.run, _answer_of, self._function, plain(record, given)
            )
            try:
                value, problem = await asyncio.shield(future)
            except asyncio.CancelledError:
                self._left_running[asyncio.current_task()] = future
                raise
            if problem is not None:
                raise _raisable(problem)
            return value

        return await wrapped(self._layers, in_thread)(message)

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


def _answer_of(function: Callable[..., Any], argument: Any) -> tuple[Any, BaseException | None]:
    """What it returned or raised, as a value: a future can't hold a StopIteration."""
    try:
        return function(argument), None
    except BaseException as problem:  # noqa: BLE001 - it is raised again where it is awaited
        return None, problem


def _raisable(problem: BaseException) -> BaseException:
    """The error as a coroutine may raise it."""
    if isinstance(problem, StopIteration):
        told = RuntimeError("the handler raised StopIteration")
        told.__cause__ = problem
        return told
    return problem


class _Process:
    settles = False

    def __init__(self, handler: Handler, layers: Sequence[Middleware]) -> None:
        self._call = partial(_run, handler.function, keep=handler.keep_result)
        self._layers = layers
        self._slots = ProcessSlots(handler.options.concurrency)

    async def __call__(self, message: Any, record: Any) -> Any:
        async def in_process(given: Any) -> Any:
            return _read(await self._slots.run(self._call, plain(record, given)))

        return await wrapped(self._layers, in_process)(message)

    async def prepare(self) -> None:
        await self._slots.prepare()

    async def linger(self) -> None:
        """A process that was given up has been killed."""

    async def close(self, *, at_once: bool) -> None:
        if at_once:
            self._slots.kill()
        else:
            await self._slots.close()


def plain(record: Any, message: Any) -> Any:
    """What a plain function gets: the record, with the payload as its type."""
    if not isinstance(record, msgspec.Struct):
        return message
    return msgspec.structs.replace(record, payload=message.payload)


# In processes: for work that keeps a core busy


class ProcessSlot:
    """One process, started when it is first needed and again when it has died."""

    def __init__(self) -> None:
        self._executor: ProcessPoolExecutor | None = None
        self._pid: int | None = None

    async def run(self, function: Callable[..., Any], argument: Any) -> Any:
        try:
            executor = await self.started()
            return await _on(executor, function, argument)
        except asyncio.CancelledError:
            self.kill()
            raise
        except BrokenProcessPool:
            self.kill()
            raise ProcessDied("the handler's process died before it had finished") from None

    async def started(self) -> ProcessPoolExecutor:
        if self._executor is None:
            # Spawned: a fork of a process with threads and open connections can't be trusted.
            self._executor = ProcessPoolExecutor(
                1, mp_context=multiprocessing.get_context("spawn"), initializer=_begin_process
            )
            with _signals_held_back():
                first = _on(self._executor, os.getpid)
            self._pid = await first
        return self._executor

    def kill(self) -> None:
        executor, self._executor = self._executor, None
        if self._pid is not None:
            with suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGKILL)
            self._pid = None
        if executor is not None:
            executor.shutdown(wait=False, cancel_futures=True)

    async def close(self) -> None:
        executor, self._executor, self._pid = self._executor, None, None
        if executor is not None:
            await asyncio.to_thread(executor.shutdown)


class ProcessSlots:
    """As many processes as a handler has concurrency.

    Each slot has one.  When a message runs out of time, or its claim is lost, its process is
    killed, and no other: a thread can't be stopped, a process can.
    """

    def __init__(self, count: int) -> None:
        self._all = [ProcessSlot() for _ in range(count)]
        self._free = deque(self._all)

    async def run(self, function: Callable[..., Any], argument: Any) -> Any:
        slot = self._free.popleft()
        try:
            return await slot.run(function, argument)
        finally:
            # The one used last comes first: under little load few processes are started.
            self._free.appendleft(slot)

    async def prepare(self) -> None:
        """Start the process that comes next, so that its start is not the handler's time."""
        slot = self._free.popleft()
        try:
            await slot.started()
        finally:
            self._free.appendleft(slot)

    async def close(self) -> None:
        for slot in self._all:
            await slot.close()

    def kill(self) -> None:
        for slot in self._all:
            slot.kill()


def _on(executor: ProcessPoolExecutor, function: Callable[..., Any], *arguments: Any) -> Any:
    return asyncio.get_running_loop().run_in_executor(executor, function, *arguments)


# A stop is sent to the whole process group, by a terminal (Ctrl-C) as by systemd.  Only the worker
# decides what it means: its handlers may finish.
_STOPPING = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def _signals_held_back() -> Iterator[None]:
    """A process that is started in the block does not get these signals until it ignores them."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _STOPPING)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _begin_process() -> None:
    """Runs first in a handler's process."""
    for number in _STOPPING:
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _STOPPING)
    threading.Thread(target=_end_with_parent, name="penstock-parent", daemon=True).start()


def _end_with_parent() -> None:
    """A worker that is killed can't end its processes: they end themselves."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


class _Ended(NamedTuple):
    """How a handler ended in its process.  Plain values, so that every end can be told."""

    value: bytes | None = None
    """What it returned, pickled."""
    outcome: Outcome | None = None
    """What its error asks for."""
    error: bytes | None = None
    """The error itself, pickled, if it can be rebuilt."""
    trace: str = ""


class _TraceElsewhere(Exception):
    """The traceback of another process, as the cause of the error that came from there."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


def _run(function: Callable[..., Any], argument: Any, *, keep: bool) -> _Ended:
    """Call the handler, in its process."""
    try:
        result = function(argument)
    except BaseException as problem:  # noqa: BLE001 - a handler's answer, whatever it is
        return _failed(problem)
    try:
        return _Ended(pickle.dumps(result if keep else None))
    except Exception as problem:  # noqa: BLE001 - pickle calls code of the application
        return _failed(Dead(f"the handler's result can't be sent from its process: {problem}"))


def _failed(problem: BaseException) -> _Ended:
    trace = "".join(traceback.format_exception(problem))
    try:
        error = pickle.dumps(problem)
        pickle.loads(error)  # noqa: S301 - our own
    except Exception:  # noqa: BLE001 - pickle calls code of the application
        error = None
    return _Ended(outcome=outcome_of(problem), error=error, trace=trace)


def _read(ended: _Ended) -> Any:
    """What a handler returned in its process; what it raised is raised here."""
    if ended.outcome is None:
        assert ended.value is not None
        return pickle.loads(ended.value)  # noqa: S301 - from a process of ours
    problem: BaseException = FailedElsewhere(ended.outcome)
    if ended.error is not None:
        with suppress(Exception):
            problem = _raisable(pickle.loads(ended.error))  # noqa: S301
    problem.__cause__ = _TraceElsewhere(ended.trace)
    raise problem
