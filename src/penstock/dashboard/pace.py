"""How often to ask: as often as wanted, and never for more than a share of the server's time."""

from __future__ import annotations

import time
from collections import deque

_REMEMBERED = 5
_WARMING_UP = 2


class Pace:
    """A question that is asked every so many seconds, or less often when its answer takes long.

    The share limits the load that a dashboard causes, whatever it looks at: at a share of one per
    cent, a question that takes 100 ms is not asked again for ten seconds.
    """

    def __init__(self, every: float, share: float) -> None:
        self._every = every
        self._share = share
        self._next = 0.0
        self._took: deque[float] = deque(maxlen=_REMEMBERED)

    def is_due(self) -> bool:
        return time.monotonic() >= self._next

    def took(self, seconds: float) -> None:
        self._took.append(seconds)
        self._next = time.monotonic() + wait_after(list(self._took), self._every, self._share)

    def hurry(self) -> None:
        """Ask again at the next chance: the data was just changed."""
        self._next = 0.0


def wait_after(took: list[float], every: float, share: float) -> float:
    """How long to wait after questions that took so long, the newest last.

    The quickest of them is what the answer costs; the rest of the others was waiting for a busy
    machine.  The first ones also made plans and read the catalogue, and do not count.
    """
    dear = min(took) / share if len(took) > _WARMING_UP else 0.0
    # A little earlier than the next look, which would else find it not quite due.
    return max(0.9 * every, dear)
