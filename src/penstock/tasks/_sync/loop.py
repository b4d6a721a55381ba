"""Where the blocking store's work is done: an event loop in a thread of its own.

One implementation serves both kinds of callers, so that retries, deadlocks and lost connections are
dealt with in one place, and MySQL needs one driver.  A call costs two hops between threads, some
tens of microseconds, beside a database's answer.  Many threads may share one store.
"""

from __future__ import annotations

import asyncio
import os
import threading
from typing import TYPE_CHECKING, Any, Self, TypeVar

from penstock.errors import UnusableConnection
from penstock.postgres import foreign
from penstock.tasks.errors import TaskError

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from types import TracebackType

    from penstock.tasks.store import TaskStore

T = TypeVar("T")
_AWAITED = (foreign.Kind.PSYCOPG_ASYNC, foreign.Kind.ASYNCPG, foreign.Kind.SQLALCHEMY_ASYNC)


class Loop:
    """An event loop in a thread, started when it is first needed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._process = 0

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Do the work there, and wait for it; an interrupt cancels it."""
        try:
            loop = self._started()
        except BaseException:
            work.close()
            raise
        future = asyncio.run_coroutine_threadsafe(work, loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def _started(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._process = os.getpid()
                self._thread = threading.Thread(
                    target=_serve, args=(self._loop,), name="penstock-tasks", daemon=True
                )
                self._thread.start()
        if self._process != os.getpid():
            raise TaskError(
                "the store was opened before this process was forked, and its thread stayed "
                "behind: connect in the child"
            )
        if self._thread is threading.current_thread():
            raise TaskError("a hook of the store can't call the store that waits for it")
        return self._loop

    def stop(self) -> None:
        """End the thread; the next call would start another."""
        with self._lock:
            loop, self._loop = self._loop, None
            thread, self._thread = self._thread, None
        if loop is None or thread is None or self._process != os.getpid():
            return
        loop.call_soon_threadsafe(loop.stop)
        thread.join()


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    """Closed in its own thread: the caller's may have a running loop of its own."""
    try:
        loop.run_forever()
        loop.run_until_complete(loop.shutdown_asyncgens())
    finally:
        loop.close()


def run_at_once(work: Coroutine[Any, Any, T], connection: Any) -> T:
    """Do the work in the caller's own thread, where the caller's connection may be used.

    Work on a connection that blocks never waits for the event loop, so one step does it all.
    """
    try:
        if _must_be_awaited(connection):
            raise UnusableConnection(
                f"connection= is a {type(connection).__qualname__}, which has to be awaited: "
                "use the queue of penstock.tasks.connect() with it"
            )
        work.send(None)
    except StopIteration as done:
        value: T = done.value
        return value
    finally:
        work.close()
    raise AssertionError("a connection that blocks was waited for")


def _must_be_awaited(connection: Any) -> bool:
    try:
        return foreign.recognise(connection) in _AWAITED
    except UnusableConnection:
        # An unknown library: the store's own error says which ones it takes.
        return False


class OnLoop:
    """What a blocking store has besides the operations of a store."""

    def __init__(self, store: TaskStore) -> None:
        self._store = store
        self._loop = Loop()

    @property
    def wakes(self) -> bool:
        """Whether `wait` hears of new tasks; otherwise it just sleeps."""
        return self._store.wakes

    def open(self) -> Self:
        """Connect, and check that the server and its tables can be used."""
        try:
            self._loop.run(self._store.open())
        except BaseException:
            self._loop.stop()
            raise
        return self

    def close(self) -> None:
        """Give every connection back.  Closing twice is harmless."""
        self._loop.run(self._store.close())
        self._loop.stop()

    def __enter__(self) -> Self:
        return self.open()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _run(self, work: Coroutine[Any, Any, T], connection: Any = None) -> T:
        return self._loop.run(work) if connection is None else run_at_once(work, connection)
