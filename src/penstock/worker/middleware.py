"""Middleware: layers around every handler, the first given outermost."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, TypeAlias

Next: TypeAlias = Callable[[Any], Awaitable[Any]]
"""What a layer calls to go further in: `await call_next(message)`."""

Middleware: TypeAlias = Callable[[Any, Next], Awaitable[Any]]
"""`async def layer(message, call_next)`.  What it raises counts as the handler's own."""


def wrapped(layers: Sequence[Middleware], innermost: Next) -> Next:
    """The handler with its layers around it; without layers, the handler itself."""
    call = innermost
    for layer in reversed(layers):
        call = partial(_through, layer, call)
    return call


async def _through(layer: Middleware, call_next: Next, message: Any) -> Any:
    return await layer(message, call_next)
