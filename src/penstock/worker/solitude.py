"""The last attempt of a suspect is made alone.

A message whose claim ended without an answer may have killed its worker, or may only have been in
the same process as one that did.  Before the last attempt that makes no difference: all of them are
tried again.  The last attempt is made while the process holds nothing else.  So a message that
kills takes no other with it, and the others are handled.

The last attempt counts only when its handler is about to begin: the claim defers it.  If another
message kills the process before, the suspect comes again with the same attempt.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.worker.claims import Held
    from penstock.worker.station import Station

_log = logging.getLogger("penstock.worker")
_LOOK_SECONDS = 0.01


class Solitude:
    """A worker's stations stand back, all of them, while one has a suspect."""

    def __init__(self) -> None:
        self._suspect: tuple[Station, Held] | None = None
        self._asked = asyncio.Event()

    @property
    def taken(self) -> bool:
        """Nothing is claimed or begun meanwhile."""
        return self._suspect is not None

    def ask(self, station: Station, held: Held) -> None:
        """Have it tried as soon as everything else has gone; one at a time."""
        assert not self.taken
        self._suspect = station, held
        self._asked.set()

    async def run(self, stations: Sequence[Station]) -> None:
        """Never ends by itself."""
        while True:
            await self._asked.wait()
            self._asked.clear()
            assert self._suspect is not None
            try:
                await _try_alone(stations, *self._suspect)
            finally:
                self._suspect = None
                for each in stations:
                    each.fetcher.finished(look_again=True)


async def _try_alone(stations: Sequence[Station], station: Station, held: Held) -> None:
    _log.warning(
        "message %s of %r has its last attempt alone: an earlier one ended without an answer",
        held.id,
        station.queue,
    )
    try:
        await _stand_back(stations, held, station.patience)
        await station.begin_attempt(held)
    except asyncio.CancelledError:
        station.release(held)
        raise
    await station.without(held)


async def _stand_back(stations: Sequence[Station], held: Held, patience: float) -> None:
    """Return when nothing but the suspect is held; handlers that take too long are left alone."""
    for each in stations:
        each.release_waiting()
    with suppress(TimeoutError):
        async with asyncio.timeout(patience):
            while not all(each.empty(but=held) for each in stations):  # noqa: ASYNC110 - it is rare
                await asyncio.sleep(_LOOK_SECONDS)
