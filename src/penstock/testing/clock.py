"""A clock that tests move: the engine's own, for all sessions of the test's database."""

from __future__ import annotations

from datetime import datetime, timedelta

import psycopg


class Clock:
    """The time of one database.

    Delays, retries, claims and keep-alives follow it at once; timers inside a process don't.
    """

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn

    def advance(self, by: timedelta | None = None, *, seconds: float = 0) -> None:
        """Let this much time pass."""
        span = (by or timedelta()) + timedelta(seconds=seconds)
        with psycopg.connect(self._dsn, autocommit=True) as conn:
            conn.execute("select penstock.advance_clock(%s)", (span,))

    def now(self) -> datetime:
        """What the engine takes for now."""
        with psycopg.connect(self._dsn, autocommit=True) as conn:
            (row,) = conn.execute("select penstock.clock()")
        moment: datetime = row[0]
        return moment

    def advance_to(self, moment: datetime) -> None:
        """Let time pass until then; a moment that is over changes nothing."""
        span = moment - self.now()
        if span > timedelta():
            self.advance(span)
