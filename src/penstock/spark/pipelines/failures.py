"""What a pipeline raises, Spark's errors in one sentence, and the rows that make a batch fail.

::

    PenstockError
    └── PipelineFailed      the run ended early; what it had not committed is done again next time
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from pyspark.sql import functions as f

from penstock.errors import PenstockError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import DataFrame

# A line that begins with the name of such a class has the reason.
_OURS = ("penstock.", "psycopg.", "adbc_driver")
# Errors that are about a row's data, by the beginning of Spark's error classes.
_DATA = (
    "ARITHMETIC_OVERFLOW",
    "ARRAY_",
    "BINARY_ARITHMETIC_OVERFLOW",
    "CANNOT_PARSE",
    "CAST_",
    "CONVERSION_INVALID",
    "DATETIME",
    "DIVIDE_BY_ZERO",
    "ELEMENT_AT",
    "INVALID_",
    "MALFORMED_",
    "MAP_KEY",
    "NULL_MAP_KEY",
    "NUMERIC_VALUE_OUT_OF_RANGE",
    "REMAINDER_BY_ZERO",
    "USER_RAISED_EXCEPTION",
    "VARIANT_",
)


class PipelineFailed(PenstockError):
    """A run ended early.  Nothing is lost or doubled: start it again when the cause is mended."""


@contextmanager
def plain_errors() -> Iterator[None]:
    """Turn Spark's errors inside the block into Penstock's."""
    try:
        yield
    except Exception as problem:
        if type(problem).__module__.startswith(("pyspark.", "py4j.")):
            raise plain_error(problem) from problem
        raise


def plain_error(problem: BaseException) -> PenstockError:
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


def is_about_data(problem: BaseException) -> bool:
    """Would another row have passed?"""
    get = getattr(problem, "getCondition", None) or getattr(problem, "getErrorClass", None)
    condition = get() if get is not None else None
    text = str(condition or problem)
    return any(f"[{sign}" in str(problem) or text.startswith(sign) for sign in _DATA)


def find_failing_rows(
    frame: DataFrame,
    apply: Callable[[DataFrame], DataFrame],
    most: int,
    number: str = "offset",
) -> dict[int, str]:
    """The numbers of rows that fail, and why; more than `most` means that the rules are wrong.

    Spark stops a whole job at the first row that can't be computed.  So the batch is halved, and
    halved again, until a failing row is alone: a few jobs for each of them, none for the others.
    """
    offsets = sorted(row[0] for row in frame.select(number).collect())
    found: dict[int, str] = {}
    ranges = [offsets]
    while ranges:
        part = ranges.pop()
        problem = _problem(apply(frame.where(f.col(number).between(part[0], part[-1]))))
        if problem is None:
            continue
        if len(part) == 1:
            found[part[0]] = first_words(problem)
            if len(found) > most:
                raise PipelineFailed(
                    f"more than {most} rows of one batch fail: {found[part[0]]}\n"
                    "Mend the expressions, or allow more with max_failures; nothing of it was sent."
                )
        else:
            middle = len(part) // 2
            ranges += [part[middle:], part[:middle]]
    return found


def _problem(frame: DataFrame) -> Exception | None:
    try:
        frame.write.format("noop").mode("overwrite").save()
    except Exception as problem:
        if not is_about_data(problem):
            raise
        return problem
    return None
