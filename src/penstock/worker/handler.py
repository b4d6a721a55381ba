"""Handlers: a function, the queue that it serves, and whether the one fits the other.

That is asked when a handler is registered, not at the first message.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

from penstock.errors import InvalidSetting
from penstock.payloads import Codec, codec_for
from penstock.worker.options import Options, RunIn

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


class Kind(Enum):
    """The four ways in which a handler runs."""

    ASYNC = "async"
    TRANSACTIONAL = "transactional"
    THREAD = "thread"
    PROCESS = "process"


@dataclass(frozen=True, slots=True)
class Handler:
    """A function and the queue it serves."""

    queue: str
    """Or the topic of its tasks."""
    function: Callable[..., Any]
    options: Options
    gate: Callable[[], Awaitable[None]] | None = None
    """Awaited before every look at the queue: nothing is claimed while it waits."""
    keep_result: bool = False
    """Tasks only: what it returns is stored with the task."""

    @property
    def kind(self) -> Kind:
        if self.options.transactional:
            return Kind.TRANSACTIONAL
        if is_async(self.function):
            return Kind.ASYNC
        return Kind.PROCESS if self.options.run_in is RunIn.PROCESS else Kind.THREAD

    @property
    def codec(self) -> Codec[Any]:
        return codec_for(self.options.payload_type)

    def __post_init__(self) -> None:
        check(self.function, self.options)
        _ = self.codec  # a type that can't be used is told now, not at the first message


def is_async(function: Callable[..., Any]) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004 - asked about, not called
    )


def check(function: Callable[..., Any], options: Options) -> None:
    """Raise if the function can't be called as its options promise."""
    name = getattr(function, "__qualname__", repr(function))
    if not callable(function):
        raise InvalidSetting(f"{name} is no function: decorate one, `async def bill(message)` say")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise InvalidSetting(f"{name} has a `yield`: a handler returns or raises, once a message")
    if options.transactional and not is_async(function):
        raise InvalidSetting(
            f"{name} is transactional, so it must be `async def` and take (message, conn)"
        )
    if options.run_in is RunIn.PROCESS:
        _check_process(function, name)
    accepts(function, name, ("message", "conn") if options.transactional else ("message",))


def accepts(function: Callable[..., Any], name: str, arguments: tuple[str, ...]) -> None:
    """Raise if the function does not take these arguments."""
    try:
        signature = inspect.signature(function)
    except ValueError:
        return  # One that is not written in Python does not say what it takes.
    try:
        signature.bind(*arguments)
    except TypeError as problem:
        raise InvalidSetting(
            f"{name} must take ({', '.join(arguments)}), for that is what it is called with: "
            f"{problem}"
        ) from None


def _check_process(function: Callable[..., Any], name: str) -> None:
    if is_async(function):
        raise InvalidSetting(
            f"{name} is `async def`, which runs in the event loop: for run_in='process' make it a "
            "plain function"
        )
    if "<" in name:
        raise InvalidSetting(
            f"{name} can't run in a process: another process finds a function by its name, so "
            "define it at the top of a module"
        )
