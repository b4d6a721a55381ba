"""What the log says of a handler that failed: its error's text and place, or the whole traceback.

A payload is never written.  An error's text is the application's own, and may quote one: where that
must not happen, `log_errors="kind"` leaves only the error's type.
"""

from __future__ import annotations

import logging
import os
import sys
import traceback
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from penstock.client.values import described
from penstock.errors import InvalidSetting
from penstock.settings import variable
from penstock.worker.outcomes import Dead, Retry

if TYPE_CHECKING:
    from penstock.worker.handler import Handler

_log = logging.getLogger("penstock.worker")

VARIABLE = variable("log_errors")
"""A worker's own, and no field of Settings: a worker of tasks has none."""


class LogErrors(StrEnum):
    """How much of a handler's error is logged."""

    TRACEBACK = "traceback"
    TEXT = "text"
    """Type, text, file and line."""
    KIND = "kind"
    """The type alone."""


class FailureLog:
    """Writes each failed attempt to the logger `penstock.worker`."""

    def __init__(self, chosen: str | None = None) -> None:
        """Without a choice PENSTOCK_LOG_ERRORS decides; without that, stderr: a terminal gets
        tracebacks, anything else the text."""
        self.level = _level(chosen or os.environ.get(VARIABLE) or None)

    def write(self, handler: Handler, record: Any, problem: BaseException) -> None:
        """Say that an attempt has failed."""
        if not _log.isEnabledFor(logging.WARNING):
            return
        noun = "task" if hasattr(record, "topic") else "message"
        what = f"{noun} {record.id} of {handler.queue!r}"
        kind = type(problem).__qualname__
        level = self.level
        if level is LogErrors.TRACEBACK and isinstance(problem, Retry | Dead):
            # Raised on purpose: the reason says it all.
            level = LogErrors.TEXT
        match level:
            case LogErrors.KIND:
                _log.warning("%s failed: %s", what, kind)
            case LogErrors.TEXT:
                _log.warning(
                    "%s failed: %s (%s)", what, described(problem), place(handler, problem)
                )
            case LogErrors.TRACEBACK:
                trace = (type(problem), problem, problem.__traceback__)
                _log.warning("%s failed: %s", what, described(problem), exc_info=trace)


def place(handler: Handler, problem: BaseException) -> str:
    """Where it was raised: the last line of the handler's own file, else the last of all."""
    frames = traceback.extract_tb(problem.__traceback__)
    code = getattr(handler.function, "__code__", None)
    own = [each for each in frames if code is not None and each.filename == code.co_filename]
    last = (own or frames)[-1:]
    return f"{last[0].filename}:{last[0].lineno}" if last else "no place known"


def _level(chosen: str | None) -> LogErrors:
    if chosen is None:
        return LogErrors.TRACEBACK if sys.stderr.isatty() else LogErrors.TEXT
    try:
        return LogErrors(chosen)
    except ValueError:
        words = ", ".join(repr(each.value) for each in LogErrors)
        raise InvalidSetting(f"log_errors is {chosen!r}: choose one of {words}") from None
