"""Finding the rows that make an SQL expression fail.

Spark stops a whole job at the first row that can't be computed.  So the batch is halved, and halved
again, until the rows that fail stand alone: a few jobs for each of them, none for the others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as f

from penstock.spark.pipelines.errors import PipelineFailed
from penstock.spark.pipelines.trouble import first_words

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame

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


def is_about_data(problem: BaseException) -> bool:
    """Would another row have passed?"""
    get = getattr(problem, "getCondition", None) or getattr(problem, "getErrorClass", None)
    condition = get() if get is not None else None
    text = str(condition or problem)
    return any(f"[{sign}" in str(problem) or text.startswith(sign) for sign in _DATA)


def find(
    frame: DataFrame,
    apply: Callable[[DataFrame], DataFrame],
    most: int,
    number: str = "offset",
) -> dict[int, str]:
    """The numbers of rows that fail, and why; more than `most` means that the rules are wrong."""
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
