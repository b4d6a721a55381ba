"""How each door is sabotaged: one line, which its machine must notice."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from penstock.sync import Message
from penstock.tasks.stores import sql_statements

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

#: An earlier attempt of the same owner passes for the present one.
ANY_ATTEMPT = ("and attempts = %(attempt)s", "")

#: A lease that has ended is not taken back.
LEASES_NEVER_END = (
    "where status = 'leased' and lease_until <= utc_timestamp(6)",
    "where status = 'forgotten' and lease_until <= utc_timestamp(6)",
)


@contextmanager
def delay_is_forgotten() -> Iterator[None]:
    """The client does not pass on for how long a failed message is to wait."""
    honest = Message.nack

    def nack(
        self: Message[Any], _delay: Any = None, error: Any = None, *, connection: Any = None
    ) -> bool:
        return honest(self, None, error, connection=connection)

    with patch.object(Message, "nack", nack):
        yield


@contextmanager
def statements_rewritten(dialect: ModuleType, old: str, new: str) -> Iterator[None]:
    """Another text in every statement of a task store that has it."""

    def load(file: str) -> dict[str, sql_statements.Statement]:
        found = sql_statements.load(file)
        if not any(old in each.sql for each in found.values()):
            raise LookupError(f"no statement has {old!r}: the sabotage has lost its place")
        return {name: replace(each, sql=each.sql.replace(old, new)) for name, each in found.items()}

    with patch.object(dialect, "load", load):
        yield
