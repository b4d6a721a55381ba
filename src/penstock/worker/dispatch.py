"""Giving messages to handlers: slots, time limits, what an exception or a cancellation means."""

from __future__ import annotations

import asyncio
import logging
import time
import traceback
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from penstock.errors import ClaimLost
from penstock.observe import spans
from penstock.worker.claims import Held, Stage
from penstock.worker.outcomes import ACKED, BY_HANDLER, RELEASED, Outcome, outcome_of
from penstock.worker.rhythm import averaged

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable

    from penstock.models import ClaimedMessage
    from penstock.worker.handlers import Handler, Invoker

_log = logging.getLogger("penstock.worker")

Start: TypeAlias = "Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]]"


class TookTooLong(Exception):
    """The handler used up the time that it may take for one message."""


class Dispatcher:
    """Runs at most `concurrency` handlers; the others wait their turn."""

    def __init__(
        self,
        handler: Handler,
        invoke: Invoker,
        open_message: Callable[[ClaimedMessage], Any],
        ended: Callable[[Held, Outcome | None, float], None],
        *,
        freed: Callable[[], None],
    ) -> None:
        self._queue = handler.queue
        self._concurrency = handler.options.concurrency
        self._timeout = handler.options.timeout
        self._invoke = invoke
        self._settles = invoke.settles
        self._call = invoke if handler.options.timeout is None else self._within
        self._open_message = open_message
        self._ended = ended
        self._freed = freed
        self._waiting: deque[Held] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        self._start: Start | None = None
        self._cut_short = False
        self.seconds: float | None = None
        """How long a message takes, on average."""

    @property
    def running(self) -> int:
        return len(self._tasks)

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    def take(self, batch: Iterable[Held]) -> None:
        """Start what there are slots for; the rest waits."""
        self._waiting.extend(batch)
        self._fill()

    def drop_waiting(self) -> list[Held]:
        """Remove the messages that have not begun; returns those whose claims still hold."""
        dropped = [each for each in self._waiting if not each.lost]
        self._waiting.clear()
        return dropped

    async def idle(self) -> None:
        """Return when nothing runs."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    def cancel(self) -> list[asyncio.Task[None]]:
        """Cancel all that runs, and wait for no thread any more."""
        self._cut_short = True
        for task in self._tasks:
            task.cancel()
        return list(self._tasks)

    def _fill(self) -> None:
        waiting, tasks = self._waiting, self._tasks
        if not waiting:
            return
        start = self._start = self._start or _starter(asyncio.get_running_loop())
        while waiting and len(tasks) < self._concurrency:
            held = waiting.popleft()
            if not held.lost:
                held.stage = Stage.RUNNING
                # A task for each message: what a handler leaves in its context is gone with it.
                held.task = start(self._work(held))
                tasks.add(held.task)

    async def _work(self, held: Held) -> None:
        started = time.perf_counter()
        try:
            outcome = await self._outcome(held)
            seconds = time.perf_counter() - started
            self.seconds = averaged(self.seconds, seconds)
            self._ended(held, outcome, seconds)
            # Only what was cut off can still occupy its place.
            if outcome is not ACKED and not self._cut_short:
                await self._invoke.linger()
        finally:
            assert held.task is not None
            self._tasks.discard(held.task)
            self._fill()
            # Not the same moment as the message's end: a thread may have outlived it.
            self._freed()

    async def _outcome(self, held: Held) -> Outcome | None:
        """What became of it; None: the claim is lost, so nothing we say counts."""
        record = held.message
        message: Any = None
        outcome: Outcome | None
        try:
            message = self._open_message(record)
            with spans.processing(self._queue, record.id, record.attempt, record.headers):
                result = await self._call(message, record)
            outcome = result if self._settles else ACKED
        except asyncio.CancelledError as problem:
            outcome = self._cancelled(held, problem)
        except ClaimLost:
            held.lost = True
            return None
        except (Exception, SystemExit) as problem:  # noqa: BLE001 - a handler's answer, whatever it is
            self._tell(record, problem)
            outcome = outcome_of(problem)
        return BY_HANDLER if message is not None and message.finished else outcome

    async def _within(self, message: Any, record: ClaimedMessage) -> Any:
        assert self._timeout is not None
        seconds = self._timeout.total_seconds()
        await self._invoke.prepare()
        try:
            async with asyncio.timeout(seconds) as limit:
                return await self._invoke(message, record)
        except TimeoutError:
            if limit.expired():
                raise TookTooLong(f"the handler took longer than {seconds:g} s") from None
            raise

    def _cancelled(self, held: Held, problem: asyncio.CancelledError) -> Outcome | None:
        task = asyncio.current_task()
        assert task is not None
        if held.lost:
            task.uncancel()
            return None
        if held.released:
            task.uncancel()
            return RELEASED
        if task.cancelling():
            raise problem
        # The handler's own: something it waited for was cancelled.
        self._tell(held.message, problem)
        return outcome_of(problem)

    def _tell(self, record: ClaimedMessage, problem: BaseException) -> None:
        # An error's text may quote the payload, so it goes to the database and not to the log.  The
        # log gets the traceback without that text.
        if _log.isEnabledFor(logging.DEBUG):
            kind = type(problem).__qualname__
            frames = "".join(traceback.format_tb(problem.__traceback__))
            _log.debug("message %s of %r failed: %s\n%s", record.id, self._queue, kind, frames)


def _starter(loop: asyncio.AbstractEventLoop) -> Start:
    """What makes a task: `asyncio.Task` directly, unless a task factory is installed."""
    if loop.get_task_factory() is not None:
        return loop.create_task
    return partial(asyncio.Task, loop=loop)
