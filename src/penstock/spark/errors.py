"""What goes wrong when Spark plans a job, said so that the person who planned it can act."""

from __future__ import annotations

from penstock.errors import PenstockError


class InvalidOption(PenstockError):
    """An option of the data source is unknown, missing, or has a value that can't be used."""


class InvalidColumn(PenstockError):
    """A column is unknown, missing, or of a type that can't be used."""
