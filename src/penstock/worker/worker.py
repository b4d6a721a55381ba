"""A worker: handlers and schedules, and the one loop that runs them until it is told to stop."""

from __future__ import annotations

import asyncio
import os
import signal as signals_module
import socket
from contextlib import ExitStack
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

from penstock.cancellation import end
from penstock.client._async.client import Client
from penstock.client.values import duration
from penstock.errors import InvalidSetting, WorkerGaveUp
from penstock.observe.events import Event, Name, emit
from penstock.worker import shutdown
from penstock.worker.handlers import Handler
from penstock.worker.opening import opened
from penstock.worker.options import HandlerOptions, options_from
from penstock.worker.schedules import Missed, Schedule, schedule_named
from penstock.worker.solitude import Solitude
from penstock.worker.station import Station
from penstock.worker.status import State, WorkerStatus
from penstock.worker.timetable import timetable
from penstock.worker.upkeep import keep_up

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock.worker.clockwork import Clockwork
    from penstock.worker.groups import Group
    from penstock.worker.middleware import Middleware

F = TypeVar("F", bound="Callable[..., Any]")


class Worker:
    """Serves queues with handlers: `@worker.handler("billing")`, then `await worker.run()`."""

    def __init__(
        self,
        client: Client,
        *,
        name: str | None = None,
        grace: timedelta = timedelta(seconds=30),
        middleware: Sequence[Middleware] = (),
    ) -> None:
        if not isinstance(client, Client):
            raise InvalidSetting(
                f"a worker needs a client of penstock.connect(), not {client!r}; that of "
                "penstock.sync can't be used: a plain function may be a handler all the same"
            )
        self.client = client
        self.name = name or f"{socket.gethostname()}-{os.getpid()}"
        duration("grace", grace)
        self.grace = grace
        self._layers = tuple(middleware)
        self._handlers: dict[str, Handler] = {}
        self._schedules: dict[str, Schedule] = {}
        self._stations: list[Station] = []
        self._solitude = Solitude()
        self._clockwork: Clockwork | None = None
        self._state = State.NEW
        self._stop_asked = asyncio.Event()
        self._stop_now = asyncio.Event()
        self._stopped = asyncio.Event()
        self.stopped_by: signals_module.Signals | None = None
        """The signal that cut a stop short, if one did."""

    # What it does

    def handler(self, queue: str, **options: Unpack[HandlerOptions]) -> Callable[[F], F]:
        """Register the decorated function for a queue; `Options` lists what can be chosen."""
        if not isinstance(queue, str):
            raise InvalidSetting(
                f'a handler needs the name of its queue, not {queue!r}: @worker.handler("billing")'
            )
        chosen = options_from(options)

        def register(function: F) -> F:
            self._add(Handler(queue, function, chosen))
            return function

        return register

    def add_group(self, group: Group, **options: Unpack[HandlerOptions]) -> Group:
        """Serve a consumer group's queue with its members."""
        self._add(Handler(group.queue, group.handle, options_from(options), group.populated))
        return group

    def schedule(
        self,
        cron: str,
        *,
        topic: str,
        payload: Any,
        name: str | None = None,
        timezone: str = "UTC",
        missed: str = Missed.SKIP,
        key: str | None = None,
        priority: int | None = None,
    ) -> Schedule:
        """Publish a message whenever the cron expression fires, once across all workers."""
        if missed not in tuple(Missed):
            raise InvalidSetting(f"missed is {missed!r}: choose 'skip' or 'latest'")
        chosen = schedule_named(cron, topic, timezone, name)
        if chosen in self._schedules:
            raise InvalidSetting(f"there is a schedule {chosen!r} already: give it another name")
        made = Schedule(chosen, cron, topic, payload, timezone, Missed(missed), key, priority)
        self._schedules[chosen] = made
        return made

    @property
    def handlers(self) -> tuple[Handler, ...]:
        return tuple(self._handlers.values())

    @property
    def schedules(self) -> tuple[Schedule, ...]:
        return tuple(self._schedules.values())

    def _add(self, handler: Handler) -> None:
        if self._state is not State.NEW:
            raise InvalidSetting("handlers are registered before the worker runs")
        if handler.queue in self._handlers:
            raise InvalidSetting(
                f"queue {handler.queue!r} has a handler already: raise its concurrency, or create "
                "another queue on the same topic"
            )
        self._handlers[handler.queue] = handler

    def stations(self) -> list[Station]:
        """Handlers at work, and nothing that brings them messages: for its own loop and tests'."""
        return [
            Station(handler, self.client, self._layers, self.name, self._solitude)
            for handler in self._handlers.values()
        ]

    # Its life

    async def run(self, *, signals: bool = True) -> None:
        """Work until `stop()`, SIGTERM or SIGINT; a second signal stops at once."""
        if self._state is not State.NEW:
            raise InvalidSetting("a worker runs once: make another one")
        if not self._handlers and not self._schedules:
            raise InvalidSetting("the worker has nothing to do: register a handler or a schedule")
        self._state = State.RUNNING
        try:
            with ExitStack() as stack:
                if signals:
                    stack.enter_context(shutdown.signals(self._signalled))
                async with opened(self.client, self.name, self._stop_asked) as is_open:
                    if is_open:
                        await self._serve()
        finally:
            self._state = State.STOPPED
            self._stopped.set()
            emit(Event(Name.WORKER_STOPPED, worker=self.name))

    async def stop(self, *, at_once: bool = False) -> None:
        """Stop as SIGTERM does, and return when all is over; `at_once`: as the second one does."""
        self.ask_to_stop(at_once=at_once)
        if self._state is not State.NEW:
            await self._stopped.wait()

    def ask_to_stop(self, *, at_once: bool = False) -> None:
        """The same without waiting."""
        self._stop_asked.set()
        if at_once:
            self._stop_now.set()

    def status(self) -> WorkerStatus:
        """What it is doing at this moment."""
        return WorkerStatus(
            self.name,
            self._state,
            tuple(station.status() for station in self._stations),
            self._clockwork.fired if self._clockwork else 0,
        )

    def _signalled(self, number: int) -> None:
        if self._stop_asked.is_set():
            self.stopped_by = signals_module.Signals(number)
        self.ask_to_stop(at_once=self._stop_asked.is_set())

    async def _serve(self) -> None:
        self._stations = self.stations()
        emit(Event(Name.WORKER_STARTED, worker=self.name))
        fetching = [
            asyncio.create_task(each.fetcher.run(), name=f"penstock fetching {each.queue}")
            for each in self._stations
        ]
        keeping = [
            asyncio.create_task(each.keeper.run(), name=f"penstock keeping {each.queue}")
            for each in self._stations
        ]
        chores = self._chores()
        stop_asked: asyncio.Task[Any] = asyncio.create_task(self._stop_asked.wait())
        try:
            done, _ = await asyncio.wait(
                [*fetching, *keeping, *chores, stop_asked],
                return_when=asyncio.FIRST_COMPLETED,
            )
            await self._wind_down([*fetching, *chores])
        except asyncio.CancelledError:
            await shutdown.stop_at_once(self._stations, [*fetching, *chores])
            raise
        finally:
            await end([*fetching, *keeping, *chores, stop_asked])
            await self._close_invokers()
        for task in done - {stop_asked}:
            # A loop ends by itself only by giving up.
            task.result()

    def _chores(self) -> list[asyncio.Task[None]]:
        alone = self._solitude.run(self._stations)
        chores = [
            asyncio.create_task(keep_up(self.client.database), name="penstock upkeep"),
            asyncio.create_task(alone, name="penstock solitude"),
        ]
        if self._schedules:
            self._clockwork = timetable(self.client.database, self._schedules.values())
            chores.append(asyncio.create_task(self._clockwork.run(), name="penstock schedules"))
        return chores

    async def _wind_down(self, loops: Sequence[asyncio.Task[None]]) -> None:
        self._state = State.STOPPING
        emit(Event(Name.WORKER_STOPPING, worker=self.name))
        orderly = asyncio.create_task(shutdown.stop_in_order(self._stations, loops, self.grace))
        hurry = asyncio.create_task(self._stop_now.wait())
        try:
            await asyncio.wait([orderly, hurry], return_when=asyncio.FIRST_COMPLETED)
            in_order = orderly.done()
        finally:
            await end([orderly, hurry])
        if in_order:
            orderly.result()
        else:
            await shutdown.stop_at_once(self._stations, loops)

    async def _close_invokers(self) -> None:
        for station in self._stations:
            busy = station.dispatcher.running > 0
            await station.invoker.close(at_once=busy or self._stop_now.is_set())


__all__ = ["Worker", "WorkerGaveUp"]
