"""Handlers in processes of their own: for work that keeps a core busy.

Each slot has one process.  When a message runs out of time, or its claim is lost, its process is
killed, and no other: a thread can't be stopped, a process can.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
from collections import deque
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from penstock.errors import ProcessDied

if TYPE_CHECKING:
    from collections.abc import Callable


class Slot:
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
                1, mp_context=multiprocessing.get_context("spawn"), initializer=_ignore_interrupts
            )
            self._pid = await _on(self._executor, os.getpid)
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


class Slots:
    """As many processes as a handler has concurrency."""

    def __init__(self, count: int) -> None:
        self._all = [Slot() for _ in range(count)]
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


def _ignore_interrupts() -> None:
    # Ctrl-C reaches every process of the terminal; the worker decides what it means.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
