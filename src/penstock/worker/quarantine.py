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

    from penstock.worker.invoke import Claim
    from penstock.worker.runner import Runner

_log = logging.getLogger("penstock.worker")
_LOOK_SECONDS = 0.01


class Quarantine:
    """While one runner of a worker has a suspect, none of them claims or begins anything else."""

    def __init__(self) -> None:
        self.suspect: tuple[Runner, Claim] | None = None
        """While there is one, nothing else is claimed or begun."""
        self._asked = asyncio.Event()

    def ask(self, runner: Runner, claim: Claim) -> None:
        """Have it tried as soon as everything else has ended; one at a time."""
        assert self.suspect is None
        self.suspect = runner, claim
        self._asked.set()

    async def run(self, runners: Sequence[Runner]) -> None:
        """Never ends by itself."""
        while True:
            await self._asked.wait()
            self._asked.clear()
            assert self.suspect is not None
            try:
                await _try_alone(runners, *self.suspect)
            finally:
                self.suspect = None
                for each in runners:
                    each.freed.set()
                    each.changed.set()


async def _try_alone(runners: Sequence[Runner], runner: Runner, claim: Claim) -> None:
    _log.warning(
        "message %s of %s has its last attempt alone: an earlier one ended without an answer",
        claim.id,
        runner.source.title,
    )
    try:
        await _stand_back(runners, claim, runner.source.claim_for)
        await runner.begin_attempt(claim)
    except asyncio.CancelledError:
        runner.release(claim)
        raise
    await runner.without(claim)


async def _stand_back(runners: Sequence[Runner], claim: Claim, patience: float) -> None:
    """Return when nothing but the suspect is held; handlers that take too long are left alone."""
    for each in runners:
        each.release_waiting()
    with suppress(TimeoutError):
        async with asyncio.timeout(patience):
            while not all(each.empty(but=claim) for each in runners):  # noqa: ASYNC110 - it is rare
                await asyncio.sleep(_LOOK_SECONDS)
