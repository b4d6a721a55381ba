"""How many slices were cut while a part was played: without any, it says nothing of slices.

A look now and then counts what was cut since the last look, by the sequence that names slices.  A
crash sets that sequence on by some numbers that nothing is named by, so what was cut between the
last look and a crash is not counted: the count is never too high.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self

import psycopg

if TYPE_CHECKING:
    from collections.abc import Iterator

NAME = "penstock prove: slices"
LOOK_SECONDS = 0.1

# An engine without slices has no sequence of them.
LOOK = """
    select pg_postmaster_start_time(), pg_sequence_last_value(to_regclass('penstock_data.slice')),
        exists (select from penstock_data.claims where token = '')
"""
THERE = "select from penstock_data.claims where token = '' limit 1"


class Slices:
    """Looks at a database until the end, whatever becomes of its server."""

    def __init__(self, dsn: str) -> None:
        self.cut = 0
        self.looks = 0
        self.there = False
        """At the last look, something was in a slice."""
        self._dsn = dsn
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def look(self, db: psycopg.Connection[Any]) -> bool:
        """Whether something is in a slice at this moment."""
        self.there = db.execute(THERE).fetchone() is not None
        return self.there

    def _watch(self) -> None:
        before: tuple[object, int] = (None, 0)
        for started, named, there in self._looks():
            self.there = there
            last = named or 0
            # After a crash or a promotion it is counted from where the new server begins.
            if before[0] == started:
                self.cut += last - before[1]
            before = (started, last)
            self.looks += 1

    def _looks(self) -> Iterator[tuple[Any, ...]]:
        while not self._stop.is_set():
            with (
                suppress(psycopg.Error),
                psycopg.connect(
                    self._dsn, autocommit=True, connect_timeout=2, application_name=NAME
                ) as db,
            ):
                while not self._stop.wait(LOOK_SECONDS):
                    found = db.execute(LOOK).fetchone()
                    assert found is not None
                    yield found
            self._stop.wait(LOOK_SECONDS)
