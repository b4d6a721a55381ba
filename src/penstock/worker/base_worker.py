"""What both workers have in common: they run once, until they are told to stop.

A stop happens in this order:

1. nothing new is begun: handlers are closed to new messages
2. sleeps and polling end
3. the queues are no longer listened to
4. a claim under way is waited for; what it brings, and what has not begun, is released
5. handlers that run are waited for until the deadline; then they are cancelled and their messages
   released
6. the last acks are sent
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import time
from abc import ABC, abstractmethod
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from typing import TYPE_CHECKING, Any

from penstock.cancellation import end
from penstock.client.values import duration
from penstock.errors import InvalidSetting
from penstock.observe.events import Event, Name, emit
from penstock.worker.failure_log import FailureLog
from penstock.worker.quarantine import Quarantine
from penstock.worker.status import State, WorkerStatus

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Sequence
    from datetime import timedelta

    from penstock.worker.cron import Cron
    from penstock.worker.handler import Handler
    from penstock.worker.invoke import Middleware
    from penstock.worker.runner import Runner

# What handlers get to clean up after their cancellation, and the database to hear of it.
_LAST_WORDS_SECONDS = 5.0


class BaseWorker(ABC):
    """Handlers and schedules, and the loops that serve them.  A subclass says where work is."""

    def __init__(
        self,
        *,
        name: str | None,
        grace: timedelta,
        middleware: Sequence[Middleware],
        log_errors: str | None,
    ) -> None:
        duration("grace", grace)
        self.name = name or f"{socket.gethostname()}-{os.getpid()}"
        self.grace = grace
        self.log = FailureLog(log_errors)
        """How failed attempts are logged."""
        self._layers = tuple(middleware)
        self._handlers: dict[str, Handler] = {}
        self._runners: list[Runner] = []
        self._quarantine = Quarantine()
        self._cron: Cron | None = None
        self._state = State.NEW
        self._stop_asked = asyncio.Event()
        self._stop_now = asyncio.Event()
        self._stopped = asyncio.Event()
        self.stopped_by: signal.Signals | None = None
        """The signal that cut a stop short, if one did."""

    # What a subclass says

    @abstractmethod
    def runners(self) -> list[Runner]:
        """Handlers at work, and nothing that brings them messages: for its own loop and tests'."""

    @abstractmethod
    def _new_cron(self) -> Cron | None:
        """What fires the schedules, if there are any."""

    def _upkeep(self) -> list[Coroutine[Any, Any, None]]:
        """Loops besides, that never end by themselves."""
        return []

    @asynccontextmanager
    async def _opened(self) -> AsyncIterator[bool]:
        """The database is open in the block; False: the worker was told to stop first."""
        yield True

    # Its handlers

    @property
    def handlers(self) -> tuple[Handler, ...]:
        """Those that were registered."""
        return tuple(self._handlers.values())

    def _add(self, handler: Handler, taken: str) -> None:
        if self._state is not State.NEW:
            raise InvalidSetting("handlers are registered before the worker runs")
        if handler.queue in self._handlers:
            raise InvalidSetting(taken)
        self._handlers[handler.queue] = handler

    # Its life

    @abstractmethod
    async def run(self) -> None:
        """Work until `stop()`, SIGTERM or SIGINT; a second signal stops at once."""

    async def _run(self, *, signals: bool) -> None:
        if self._state is not State.NEW:
            raise InvalidSetting("a worker runs once, and this one has run: make another one")
        cron = self._new_cron()
        if not self._handlers and cron is None:
            raise InvalidSetting("the worker has nothing to do: register a handler or a schedule")
        self._cron = cron
        self._state = State.RUNNING
        try:
            with ExitStack() as stack:
                if signals:
                    stack.enter_context(_stop_signals(self._signalled))
                async with self._opened() as is_open:
                    if is_open:
                        await self._serve()
        finally:
            self._state = State.STOPPED
            self._stopped.set()
            emit(Event(Name.WORKER_STOPPED, worker=self.name))

    def ask_to_stop(self, *, at_once: bool = False) -> None:
        """Stop as SIGTERM does, without waiting; `at_once`: as a second SIGTERM does."""
        self._stop_asked.set()
        if at_once:
            self._stop_now.set()

    async def _until_stopped(self) -> None:
        if self._state is not State.NEW:
            await self._stopped.wait()

    def status(self) -> WorkerStatus:
        """What it is doing at this moment."""
        return WorkerStatus(
            self.name,
            self._state,
            tuple(each for runner in self._runners for each in runner.status()),
            self._cron.fired if self._cron else 0,
        )

    def _signalled(self, number: int) -> None:
        if self._stop_asked.is_set():
            self.stopped_by = signal.Signals(number)
        self.ask_to_stop(at_once=self._stop_asked.is_set())

    async def _serve(self) -> None:
        self._runners = self.runners()
        emit(Event(Name.WORKER_STARTED, worker=self.name))
        fetching = [
            asyncio.create_task(each.fetcher.run(), name=f"penstock fetcher of {each.source.title}")
            for each in self._runners
        ]
        beating = [
            asyncio.create_task(
                each.heartbeat.run(), name=f"penstock heartbeat of {each.source.title}"
            )
            for each in self._runners
        ]
        chores = self._chores()
        stop_asked: asyncio.Task[Any] = asyncio.create_task(self._stop_asked.wait())
        try:
            done, _ = await asyncio.wait(
                [*fetching, *beating, *chores, stop_asked],
                return_when=asyncio.FIRST_COMPLETED,
            )
            await self._wind_down([*fetching, *chores])
        except asyncio.CancelledError:
            await _stop_at_once(self._runners, [*fetching, *chores])
            raise
        finally:
            await end([*fetching, *beating, *chores, stop_asked])
            for runner in self._runners:
                await runner.close(at_once=self._stop_now.is_set())
        for task in done - {stop_asked}:
            # A loop ends by itself only by giving up.
            task.result()

    def _chores(self) -> list[asyncio.Task[None]]:
        loops = [self._quarantine.run(self._runners), *self._upkeep()]
        if self._cron is not None:
            loops.append(self._cron.run())
        return [asyncio.create_task(each, name="penstock chore") for each in loops]

    async def _wind_down(self, loops: Sequence[asyncio.Task[None]]) -> None:
        self._state = State.STOPPING
        emit(Event(Name.WORKER_STOPPING, worker=self.name))
        orderly = asyncio.create_task(_stop_in_order(self._runners, loops, self.grace))
        hurry = asyncio.create_task(self._stop_now.wait())
        try:
            await asyncio.wait([orderly, hurry], return_when=asyncio.FIRST_COMPLETED)
            in_order = orderly.done()
        finally:
            await end([orderly, hurry])
        if in_order:
            orderly.result()
        else:
            await _stop_at_once(self._runners, loops)


# Stopping


async def _stop_in_order(
    runners: Sequence[Runner], loops: Sequence[asyncio.Task[None]], grace: timedelta
) -> None:
    """Stop gracefully within the time; what is not done by then goes back to its queue."""
    deadline = time.monotonic() + grace.total_seconds()
    for runner in runners:
        runner.accepting = False
    await end(loops)
    await _until(deadline, [runner.fetcher.last_claim() for runner in runners])
    for runner in runners:
        runner.fetcher.abandon()
        runner.release_waiting()
    if not await _until(deadline, [runner.idle() for runner in runners]):
        await _cut_short(runners)
    await _until(
        max(deadline, time.monotonic() + _LAST_WORDS_SECONDS),
        [runner.acks.drained() for runner in runners],
    )


async def _cut_short(runners: Sequence[Runner]) -> None:
    tasks = [task for runner in runners for task in runner.release_running()]
    if tasks:
        # A handler that goes on in spite of its cancellation gets another one, and is left alone.
        _, stubborn = await asyncio.wait(tasks, timeout=_LAST_WORDS_SECONDS)
        for task in stubborn:
            task.cancel()


async def _stop_at_once(runners: Sequence[Runner], loops: Sequence[asyncio.Task[None]]) -> None:
    """Drop everything: what was claimed comes back when its claim ends."""
    for runner in runners:
        runner.accepting = False
        runner.fetcher.abandon()
        runner.drop_waiting()
    await end(loops)
    tasks = [task for runner in runners for task in runner.cancel()]
    if tasks:
        await asyncio.wait(tasks, timeout=1.0)
    for runner in runners:
        await runner.acks.give_up()


async def _until(deadline: float, waits: Sequence[Awaitable[None]]) -> bool:
    """Wait for all of them; False when the deadline came first."""
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    if not tasks:
        return True
    _, late = await asyncio.wait(tasks, timeout=max(0.0, deadline - time.monotonic()))
    await end(late)
    return not late


@contextmanager
def _stop_signals(stop: Callable[[int], None]) -> Iterator[None]:
    """SIGTERM and SIGINT ask for a stop; the handlers that were there before come back."""
    loop = asyncio.get_running_loop()
    before: dict[signal.Signals, object] = {}
    for number in (signal.SIGTERM, signal.SIGINT):
        # Only the main thread can set signal handlers; in another thread other code handles them.
        with suppress(ValueError, RuntimeError, NotImplementedError):
            before[number] = signal.getsignal(number)
            loop.add_signal_handler(number, stop, number)
    try:
        yield
    finally:
        for number, handler in before.items():
            with suppress(ValueError, RuntimeError):
                loop.remove_signal_handler(number)
                signal.signal(number, handler)  # type: ignore[arg-type]
