"""Errors for people: ours as they are, Spark's without the pages of Java and Python."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from penstock.errors import PenstockError
from penstock.spark.pipelines.errors import PipelineFailed

if TYPE_CHECKING:
    from collections.abc import Iterator

# Whose words at the start of a line say what went wrong.
_OURS = ("penstock.", "psycopg.", "adbc_driver")


@contextmanager
def told_plainly() -> Iterator[None]:
    """Turn Spark's errors inside the block into Penstock's."""
    try:
        yield
    except Exception as problem:
        if type(problem).__module__.startswith(("pyspark.", "py4j.")):
            raise told(problem) from problem
        raise


def told(problem: BaseException) -> PenstockError:
    """An error as the command line shows it."""
    if isinstance(problem, PenstockError):
        return problem
    return PipelineFailed(first_words(problem))


def first_words(problem: BaseException) -> str:
    """The line that says what happened, out of a message that may fill pages."""
    message = str(getattr(problem, "desc", None) or problem)
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    for line in reversed(lines):
        kind, colon, words = line.partition(": ")
        if colon and " " not in kind and kind.startswith(_OURS):
            return words
    return lines[0] if lines else type(problem).__name__
