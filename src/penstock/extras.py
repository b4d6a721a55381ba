"""What an extra brings may be missing: then the error says what to install."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from penstock.errors import MissingExtra

if TYPE_CHECKING:
    from collections.abc import Iterator

DISTRIBUTION = "penstock-mq"
"""The name on the package index, where the import name belongs to another project."""


@contextmanager
def needs(extra: str) -> Iterator[None]:
    """Around the imports of what an extra of this package brings."""
    try:
        yield
    except ModuleNotFoundError as problem:
        if problem.name is None or problem.name.startswith("penstock"):
            raise
        raise MissingExtra(
            f"{problem.name} is not installed: pip install '{DISTRIBUTION}[{extra}]'",
            name=problem.name,
        ) from problem
