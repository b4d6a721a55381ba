"""A claimed message and its handler: the slots that run it, and the ways of calling a function.

`Slots` start a task for each message.  The task calls the handler by its `Invoker`: as a coroutine,
in a transaction, in a thread or in a process of its own.  Middleware goes around each of them, the
first given outermost.  What the handler returned or raised becomes an outcome, and `Runner.ended`
gets it.
"""

from __future__ import annotations

import asyncio
import contextvars
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import msgspec

from penstock.client import calls
from penstock.errors import ClaimLost
from penstock.worker.handler import Handler, Kind
from penstock.worker.outcomes import (
    ACKED,
    BY_HANDLER,
    RELEASED,
    SETTLED,
    Outcome,
    TookTooLong,
    Verdict,
    outcome_of,
)
from penstock.worker.process_pool import ProcessPool, answer_from, run_handler
from penstock.worker.status import HandlerStatus

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterable

    from penstock.worker.runner import Runner

Start: TypeAlias = "Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]]"

Next: TypeAlias = Callable[[Any], Awaitable[Any]]
"""What a layer calls to go further in: `await call_next(message)`."""

Middleware: TypeAlias = Callable[[Any, Next], Awaitable[Any]]
"""`async def layer(message, call_next)`.  What it raises counts as the handler's own."""
# The share of the newest duration in the running average of them.
_NEWEST = 0.1


class Stage(Enum):
    """How far a claimed message has come in this worker."""

    WAITING = "waiting"
    RUNNING = "running"
    SETTLING = "settling"
    """Its handler has ended, and the database is being told."""


class Claim:
    """One claimed message or task that this worker holds."""

    __slots__ = (
        "ends_at",
        "finished",
        "id",
        "keyed",
        "lost",
        "record",
        "released",
        "seconds",
        "slots",
        "stage",
        "task",
        "token",
    )

    def __init__(
        self,
        record: Any,
        token: Any,
        ends_at: float,
        slots: Slots,
        keyed: bool = False,  # noqa: FBT001, FBT002 - made for each message, and a keyword costs
    ) -> None:
        self.record = record
        self.id = record.id
        self.keyed = keyed
        """The next message of its key may wait for its end."""
        self.token = token
        """Proves to the database that the claim is ours: a claim token, or a task's lease."""
        self.ends_at = ends_at
        """The claim's end on this process's steady clock; early rather than late."""
        self.slots = slots
        """The handler that the message is for, at work."""
        self.stage = Stage.WAITING
        self.lost = False
        self.finished = False
        """The handler has acked, nacked, released or buried it itself, or does so now."""
        self.released = False
        """It was given back because the worker stops, whatever its handler still does."""
        self.seconds: float | None = None
        """How long its handler took."""
        self.task: asyncio.Task[None] | None = None


# Looked up with each message, so by a name of this module.
_RUNNING = Stage.RUNNING


@dataclass(slots=True)
class Counters:
    """What has happened since the worker started."""

    claimed: int = 0
    acked: int = 0
    failed: int = 0
    dead: int = 0
    released: int = 0
    by_handler: int = 0
    """Finished by the handler itself, with `message.ack()` or the like."""
    lost: int = 0

    def count(self, verdict: Verdict, count: int, dead: int) -> None:
        """Count what became of so many messages."""
        self.dead += dead
        match verdict:
            case Verdict.ACK | Verdict.SETTLED:
                self.acked += count
            case Verdict.RETRY:
                self.failed += count
            case Verdict.RELEASE:
                self.released += count
            case Verdict.BY_HANDLER:
                self.by_handler += count
            case Verdict.BURY:
                """Counted as dead."""


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


# Ways of calling a handler


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
                with self._database.lend(connection):
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
        self._call = partial(run_handler, handler.function, keep=handler.keep_result)
        self._layers = layers
        self._pool = ProcessPool(handler.options.concurrency)

    async def __call__(self, message: Any, record: Any) -> Any:
        async def in_process(given: Any) -> Any:
            ended = await self._pool.run(self._call, plain(record, given))
            value, problem = answer_from(ended)
            if problem is not None:
                raise _raisable(problem)
            return value

        return await wrapped(self._layers, in_process)(message)

    async def prepare(self) -> None:
        await self._pool.prepare()

    async def linger(self) -> None:
        """A process that was given up has been killed."""

    async def close(self, *, at_once: bool) -> None:
        if at_once:
            self._pool.kill()
        else:
            await self._pool.close()


def plain(record: Any, message: Any) -> Any:
    """What a plain function gets: the record, with the payload as its type."""
    if not isinstance(record, msgspec.Struct):
        return message
    return msgspec.structs.replace(record, payload=message.payload)


def averaged(average: float | None, newest: float) -> float:
    """The running average of durations."""
    return newest if average is None else average + _NEWEST * (newest - average)
