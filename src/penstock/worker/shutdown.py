"""Stopping: what happens in which order, and by when.

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
import signal
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from penstock.cancellation import end

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Sequence
    from datetime import timedelta

    from penstock.worker.runner import Runner

# What handlers get to clean up after their cancellation, and the database to hear of it.
_LAST_WORDS_SECONDS = 5.0


async def stop_in_order(
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


async def stop_at_once(runners: Sequence[Runner], loops: Sequence[asyncio.Task[None]]) -> None:
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
def signals(stop: Callable[[int], None]) -> Iterator[None]:
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
