"""How often a token may be tried: a few times a minute from one address, and a limit for all."""

from __future__ import annotations

import time
from collections import deque

_MINUTE = 60.0
_PER_ADDRESS = 5
_IN_ALL = 50
_MOST_ADDRESSES = 1000


class Attempts:
    """Failed logins of the last minute."""

    def __init__(self) -> None:
        self._failed: dict[str, deque[float]] = {}
        self._all: deque[float] = deque(maxlen=_IN_ALL)

    def is_allowed(self, address: str) -> bool:
        now = time.monotonic()
        return (
            _recent(self._failed.get(address, deque()), now) < _PER_ADDRESS
            and _recent(self._all, now) < _IN_ALL
        )

    def failed(self, address: str) -> None:
        if len(self._failed) >= _MOST_ADDRESSES:
            self._forget()
        now = time.monotonic()
        self._failed.setdefault(address, deque(maxlen=_PER_ADDRESS)).append(now)
        self._all.append(now)

    def _forget(self) -> None:
        now = time.monotonic()
        self._failed = {who: when for who, when in self._failed.items() if _recent(when, now)}


def _recent(moments: deque[float], now: float) -> int:
    return sum(now - moment < _MINUTE for moment in moments)
