"""Whether the synchronous standby has confirmed the commits of a connection."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.errors import OutcomeUnknown

if TYPE_CHECKING:
    from psycopg.errors import Diagnostic

# Which function of the server warns has a name that no translation changes.
STANDBY_WAIT = "SyncRepWaitForLSN"


class StandbyCheck:
    """Notices the server's warning that a commit was not confirmed by the standby.

    A wait for the standby that is cancelled ends with the commit done and a warning: on this
    server the commit is durable, but a fail-over may lose it.
    """

    def __init__(self, connection: Any) -> None:
        self._is_unconfirmed = False
        connection.add_notice_handler(self._notice)

    def require_confirmed(self) -> None:
        """Raise if a commit since the last call was not confirmed."""
        if self._is_unconfirmed:
            self._is_unconfirmed = False
            raise OutcomeUnknown(
                "the wait for the synchronous standby was cut short: the change was committed on "
                "this server, but a fail-over may lose it.\n"
                "Look at the standby (pg_stat_replication) before you rely on it."
            )

    def _notice(self, diagnosis: Diagnostic) -> None:
        if diagnosis.source_function == STANDBY_WAIT:
            self._is_unconfirmed = True
