"""How often to ask: as often as wanted, and never for more than a share of the server's time."""

from __future__ import annotations

import time


class Pace:
    """A question that is asked every so many seconds, or seldomer when its answer is dear.

    The share is what keeps a dashboard harmless whatever it looks at: a question that took 100 ms
    is not asked again for ten seconds at a share of one per cent.
    """

    def __init__(self, every: float, share: float) -> None:
        self._every = every
        self._share = share
        self._next = 0.0

    def is_due(self) -> bool:
        return time.monotonic() >= self._next

    def took(self, seconds: float) -> None:
        self._next = time.monotonic() + wait_after(seconds, self._every, self._share)

    def hurry(self) -> None:
        """Ask again at the next chance: somebody has just changed something."""
        self._next = 0.0


def wait_after(took: float, every: float, share: float) -> float:
    return max(every - took, took / share)
