"""Django's connections in handlers."""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from django.db import close_old_connections

if TYPE_CHECKING:
    from collections.abc import Callable

P = ParamSpec("P")
R = TypeVar("R")


def fresh_connections(handler: Callable[P, R]) -> Callable[P, R]:
    """For a sync handler that uses the ORM: Django's care for connections around each message.

    Between requests Django closes connections that are broken or too old.  A worker's thread has no
    requests, so without this a handler keeps a connection that a restart of the database has ended.
    """

    @wraps(handler)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        close_old_connections()
        try:
            return handler(*args, **kwargs)
        finally:
            close_old_connections()

    return wrapped
