"""The connection of a transactional handler, lent to what the handler publishes."""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator


class _Loan:
    """Ends with its block, also for tasks that the handler started and that are still running."""

    __slots__ = ("connection", "database")

    def __init__(self, database: object, connection: Any) -> None:
        self.database = database
        self.connection: Any = connection


_loan: ContextVar[_Loan | None] = ContextVar("penstock_lent_connection", default=None)


@contextmanager
def lent(database: object, connection: Any) -> Iterator[None]:
    """What is published to this database in the block joins the transaction on the connection."""
    loan = _Loan(database, connection)
    mark = _loan.set(loan)
    try:
        yield
    finally:
        loan.connection = None
        _loan.reset(mark)


def lent_connection(database: object) -> Any:
    """The connection that was lent to this code; None: none was."""
    loan = _loan.get()
    return loan.connection if loan is not None and loan.database is database else None
