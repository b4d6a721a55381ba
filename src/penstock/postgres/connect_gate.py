"""How often a client tries to connect while its server takes no more connections; no I/O."""

from __future__ import annotations

from penstock.backoff import backoff

_FIRST_PAUSE = 0.25
_LONGEST_PAUSE = 5.0


class ConnectGate:
    """Shared by the pools and the listener of one client.

    A server that is full has to start a process to refuse a connection.  Many clients that
    try again and again cost it more than those it serves.  So after a failure the client makes
    no attempt for a while, each time for longer, and not in step with other clients.
    """

    def __init__(self) -> None:
        self._failures = 0
        self._open_at = float("-inf")

    @property
    def failing(self) -> bool:
        """Whether the last attempt failed."""
        return self._failures > 0

    def is_open(self, now: float) -> bool:
        """Whether the next attempt may be made."""
        return now >= self._open_at

    def failed(self, now: float) -> None:
        """Count a failed attempt; those that were made at the same time count as one."""
        if self.is_open(now):
            self._failures += 1
            self._open_at = now + backoff(
                self._failures, first=_FIRST_PAUSE, longest=_LONGEST_PAUSE
            )

    def succeeded(self) -> None:
        """The server takes connections."""
        self._failures = 0
        self._open_at = float("-inf")
