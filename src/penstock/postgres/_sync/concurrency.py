"""How the blocking client waits: the names of `_async/concurrency.py`, with threads.

This is the one file of `_sync` that is written by hand.
"""

from __future__ import annotations

import os
import selectors
import socket as sockets
import threading
import time
import weakref
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol, TypeVar

from penstock.errors import ClientClosed

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "Background",
    "Cancelled",
    "Doorbell",
    "Event",
    "Lock",
    "current_task",
    "home",
    "in_thread",
    "monotonic",
    "not_at_home",
    "on_fork",
    "sleep",
]

T = TypeVar("T")

_MANY_RINGS = 4096
# A thread can't be cancelled.  One that hangs in a connection attempt ends by itself, later.
_LONGEST_JOIN = 15.0

Cancelled = KeyboardInterrupt
Lock = threading.Lock
Event = threading.Event
monotonic = time.monotonic
sleep = time.sleep


class Task(Protocol):
    """What can be asked to end."""

    def cancelling(self) -> int:
        """How many times it has been asked."""


def current_task() -> Task | None:
    """Always None: a thread can't be asked to end."""
    return None


_after_fork: set[weakref.WeakMethod[Callable[[], None]]] = set()


def on_fork(forget: Callable[[], None]) -> None:
    """Call a bound method in each process that is forked from this one, while its object lives.

    Servers load an application once and fork (gunicorn --preload, Celery's prefork pool).  Two
    processes that talk on one socket would read each other's answers.
    """
    _after_fork.add(weakref.WeakMethod(forget, _after_fork.discard))


def _forget_parent() -> None:
    for reference in list(_after_fork):
        if (forget := reference()) is not None:
            forget()


os.register_at_fork(after_in_child=_forget_parent)


_EVERYWHERE = object()


def home() -> object:
    """Where a client's connections may be used: in every thread."""
    return _EVERYWHERE


def not_at_home() -> ClientClosed:
    """Never raised: every thread may use the connections."""
    return ClientClosed("the client belongs to another thread")


def in_thread(function: Callable[[], T]) -> T:
    """Run what blocks for long: here, in the caller's thread."""
    return function()


class Doorbell:
    """Wakes one loop that sleeps, also when its socket has something to read."""

    def __init__(self) -> None:
        self._ear, self._button = sockets.socketpair()
        for end in (self._ear, self._button):
            end.settimeout(0)

    def ring(self) -> None:
        # The socket is full of unread rings, or closed: either way nothing is missed.
        with suppress(OSError):
            self._button.send(b".")

    def wait(self, socket: int | None, timeout: float) -> None:
        """Sleep until the bell rings, the socket can be read, or the time is up."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._ear, selectors.EVENT_READ)
            if socket is not None:
                selector.register(socket, selectors.EVENT_READ)
            selector.select(max(timeout, 0))
        with suppress(BlockingIOError):
            self._ear.recv(_MANY_RINGS)

    def close(self) -> None:
        self._ear.close()
        self._button.close()


class Background:
    """A loop that runs beside its owner's."""

    def __init__(self, run: Callable[[], None], name: str) -> None:
        self._run = run
        self._name = name
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        if self._thread is None:
            # A daemon, so that a client that was not closed can't keep a program from ending.
            self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            self._thread.start()

    def stop(self, patience: float = 0) -> None:
        """Wait for its end, which its owner has asked for."""
        thread, self._thread = self._thread, None
        if thread is not None and thread is not threading.current_thread():
            thread.join(max(patience, _LONGEST_JOIN))
