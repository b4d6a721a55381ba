"""Asking again and again, for commands that run longer than a connection may live."""

from __future__ import annotations

from typing import TypeVar

from penstock.cli.session import AnyConnection, Session
from penstock.client.calls import Call
from penstock.errors import PenstockError
from penstock.postgres.call import run

T = TypeVar("T")


class Asker:
    """Runs calls on a connection that is opened again when it was lost."""

    def __init__(self, session: Session) -> None:
        self._session = session
        # A database that is not there, or has no engine, is told at once and not by a gauge.
        self._connection: AnyConnection | None = session.connection

    def __call__(self, call: Call[T]) -> T:
        try:
            if self._connection is None:
                self._connection = self._session.connect()
            return run(self._connection, call)
        except PenstockError:
            if self._connection is not None and self._connection.broken:
                self._connection = None
            raise
