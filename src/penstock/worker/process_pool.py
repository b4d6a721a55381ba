"""Processes in which plain functions run: for handlers that keep a core busy.

A handler has as many processes as it has concurrency.  What a handler returns or raises there comes
back as plain values.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import pickle
import signal
import threading
import traceback
from collections import deque
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from penstock.errors import ProcessDied
from penstock.worker.outcomes import Dead, FailedElsewhere, Outcome, outcome_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class _PooledProcess:
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


class ProcessPool:
    """As many processes as a handler has concurrency.

    Each message that runs has one.  When a message runs out of time, or its claim is lost, its
    process is killed, and no other: a thread can't be stopped, a process can.
    """

    def __init__(self, count: int) -> None:
        self._all = [_PooledProcess() for _ in range(count)]
        self._free = deque(self._all)

    async def run(self, function: Callable[..., Any], argument: Any) -> Any:
        process = self._free.popleft()
        try:
            return await process.run(function, argument)
        finally:
            # The one used last comes first: under little load few processes are started.
            self._free.appendleft(process)

    async def prepare(self) -> None:
        """Start the process that comes next, so that its start is not the handler's time."""
        process = self._free.popleft()
        try:
            await process.started()
        finally:
            self._free.appendleft(process)

    async def close(self) -> None:
        for process in self._all:
            await process.close()

    def kill(self) -> None:
        for process in self._all:
            process.kill()


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


def run_handler(function: Callable[..., Any], argument: Any, *, keep: bool) -> _Ended:
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


def answer_from(ended: _Ended) -> tuple[Any, BaseException | None]:
    """What a handler returned in its process, or what it raised there."""
    if ended.outcome is None:
        assert ended.value is not None
        return pickle.loads(ended.value), None  # noqa: S301 - from a process of ours
    problem: BaseException = FailedElsewhere(ended.outcome)
    if ended.error is not None:
        with suppress(Exception):
            problem = pickle.loads(ended.error)  # noqa: S301
    problem.__cause__ = _TraceElsewhere(ended.trace)
    return None, problem
