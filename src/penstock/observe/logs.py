"""Events as log lines: one logger per noun, structured fields, and never a payload.

penstock.observe.logs.start()                 # to the loggers that the application set up
penstock.observe.logs.start(json_lines=True)  # and to stderr, one JSON object a line
"""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from typing import Any

import msgspec

from penstock.observe.events import Event, Name, Subscription, subscribe

# What an operator wants to hear of without asking; the rest is DEBUG, because it comes with every
# message.
_LEVELS = {
    Name.MESSAGE_DEAD_LETTERED: logging.ERROR,
    Name.TASK_DEAD_LETTERED: logging.ERROR,
    Name.CALL_FAILED: logging.ERROR,
    Name.MESSAGE_FAILED: logging.WARNING,
    Name.TASK_FAILED: logging.WARNING,
    Name.CLAIM_LOST: logging.WARNING,
    Name.LEASE_LOST: logging.WARNING,
    Name.LISTENER_LOST: logging.WARNING,
    Name.CALL_RETRIED: logging.WARNING,
    Name.LISTENER_CONNECTED: logging.INFO,
    Name.WORKER_STARTED: logging.INFO,
    Name.WORKER_STOPPING: logging.INFO,
    Name.WORKER_STOPPED: logging.INFO,
    Name.SCHEDULE_FIRED: logging.INFO,
}
_FIELD = "penstock"


class JsonFormatter(logging.Formatter):
    """One JSON object a line: time, level, logger, event or text, and the event's fields."""

    def format(self, record: logging.LogRecord) -> str:
        """The line for a record, of Penstock's loggers or of any other."""
        moment = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line: dict[str, Any] = {
            "time": moment,
            "level": record.levelname.lower(),
            "logger": record.name,
        }
        fields = getattr(record, _FIELD, None)
        line |= {"message": record.getMessage()} if fields is None else _as_line(fields)
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False, default=str)


class Logs:
    """The subscriber that writes events to `penstock.message`, `penstock.claim`, …"""

    def __init__(self) -> None:
        self._loggers = {
            name: logging.getLogger(f"penstock.{name.split('.', maxsplit=1)[0]}") for name in Name
        }

    def __call__(self, event: Event) -> None:
        """Write one event, if its level is enabled."""
        level = _LEVELS.get(event.name, logging.DEBUG)
        logger = self._loggers[event.name]
        if logger.isEnabledFor(level):
            fields = msgspec.to_builtins(event)
            logger.log(level, _sentence(fields), extra={_FIELD: fields})


def start(*, json_lines: bool = False, level: int = logging.INFO) -> Subscription:
    """Write events to the log from now on; `json_lines` also sets up stderr for it."""
    if json_lines:
        _write_lines(level)
    return subscribe(Logs())


def _write_lines(level: int) -> None:
    logger = logging.getLogger("penstock")
    if not any(isinstance(each.formatter, JsonFormatter) for each in logger.handlers):
        handler = logging.StreamHandler()
        handler.setFormatter(JsonFormatter())
        logger.addHandler(handler)
        # The application's own handlers would write each line a second time.
        logger.propagate = False
    logger.setLevel(level)


def _sentence(fields: dict[str, Any]) -> str:
    rest = " ".join(f"{name}={_short(value)}" for name, value in fields.items() if name != "name")
    return f"{fields['name']} {rest}".rstrip()


def _short(value: Any) -> Any:
    # Microseconds are precise enough for a duration.
    return f"{value:.6f}" if isinstance(value, float) else value


def _as_line(fields: dict[str, Any]) -> dict[str, Any]:
    return {"event": fields["name"], **{name: v for name, v in fields.items() if name != "name"}}
