"""A connection of psycopg's whose server has to answer in time."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, TypeVar

import psycopg
from psycopg import AsyncConnection

from penstock.client._async.concurrency import monotonic
from penstock.client.deadlines import CANCEL_SECONDS, Overdue, until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from psycopg.abc import PQGen

T = TypeVar("T")


class Session(AsyncConnection[Any]):
    """As psycopg's, with a limit to the silence after each request."""

    answer_within: float | None = None
    """Seconds; None: for as long as it takes, such as the caller's own statements."""

    @contextmanager
    def answering(self, seconds: float | None) -> Iterator[None]:
        """Another limit for the requests of a block."""
        before, self.answer_within = self.answer_within, seconds
        try:
            yield
        finally:
            self.answer_within = before

    async def wait(self, gen: PQGen[T], *args: Any, **options: Any) -> T:
        """Carry on the conversation to its end, or to the deadline."""
        seconds = self.answer_within
        if seconds is None:
            return await super().wait(gen, *args, **options)
        try:
            return await super().wait(until(gen, monotonic() + seconds, seconds), *args, **options)
        except Overdue:
            return await self._cut_short(gen, seconds)

    async def _cut_short(self, gen: PQGen[T], seconds: float) -> T:
        """Ask the server to give up.  What it says to that is the truth; silence tells nothing."""
        deadline = monotonic() + 2 * CANCEL_SECONDS
        with suppress(psycopg.Error, OSError):
            await self.cancel_safe(timeout=CANCEL_SECONDS)
        try:
            return await super().wait(until(gen, deadline, seconds))
        except psycopg.errors.QueryCanceled as problem:
            raise Overdue(seconds, undone=True) from problem
        except Overdue:
            self.pgconn.finish()
            raise
