"""Log lines: structured, at the right level, without payloads."""

from __future__ import annotations

import io
import json
import logging
from typing import TYPE_CHECKING

import pytest

from penstock.observe import Event, Name, emit, logs

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def lines() -> Iterator[io.StringIO]:
    """What a handler with our formatter writes."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(logs.JsonFormatter())
    logger = logging.getLogger("penstock")
    before = (logger.level, logger.propagate)
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    yield stream
    logger.removeHandler(handler)
    logger.level, logger.propagate = before


def test_an_event_is_one_json_line_with_its_fields(lines: io.StringIO) -> None:
    with logs.start():
        emit(Event(Name.MESSAGE_FAILED, queue="billing", message_id=7, attempt=2, seconds=0.5))
    line = json.loads(lines.getvalue())
    assert line.pop("time").endswith("+00:00")
    assert line == {
        "level": "warning",
        "logger": "penstock.message",
        "event": "message.failed",
        "queue": "billing",
        "message_id": 7,
        "attempt": 2,
        "seconds": 0.5,
    }


def test_what_comes_with_every_message_is_for_debugging(lines: io.StringIO) -> None:
    with logs.start():
        emit(Event(Name.MESSAGE_ACKED, queue="billing", message_id=7))
        assert lines.getvalue() == ""
        logging.getLogger("penstock").setLevel(logging.DEBUG)
        emit(Event(Name.MESSAGE_ACKED, queue="billing", message_id=7))
    assert json.loads(lines.getvalue())["level"] == "debug"


def test_plain_loggers_get_a_readable_sentence(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO), logs.start():
        emit(Event(Name.CLAIM_LOST, queue="billing", message_id=7))
    assert caplog.messages == ["claim.lost queue=billing message_id=7"]


def test_other_records_and_their_exceptions_are_lines_too(lines: io.StringIO) -> None:
    try:
        raise RuntimeError("no luck")
    except RuntimeError:
        logging.getLogger("penstock.worker").exception("it broke on %s", "billing")
    line = json.loads(lines.getvalue())
    assert line["message"] == "it broke on billing"
    assert "RuntimeError: no luck" in line["exception"]


def test_json_lines_are_set_up_once(capsys: pytest.CaptureFixture[str]) -> None:
    logger = logging.getLogger("penstock")
    before = (list(logger.handlers), logger.level, logger.propagate)
    try:
        first, second = logs.start(json_lines=True), logs.start(json_lines=True)
        second.end()
        emit(Event(Name.WORKER_STARTED, worker="w1"))
        first.end()
    finally:
        logger.handlers, logger.level, logger.propagate = before
    (line,) = capsys.readouterr().err.splitlines()
    assert json.loads(line)["event"] == "worker.started"


def test_every_event_has_a_logger_of_its_noun() -> None:
    made = logs.Logs()
    for name in Name:
        made(Event(name))
