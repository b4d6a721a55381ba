"""What people type, and what the command line makes of it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
import typer

from penstock.cli import arguments, output
from penstock.cli.output import explain
from penstock.errors import DatabaseUnavailable, EngineError, UnknownTopic
from penstock.models import Ordering


@pytest.mark.parametrize(
    ("text", "span"),
    [
        ("90", timedelta(seconds=90)),
        ("0", timedelta()),
        ("500ms", timedelta(milliseconds=500)),
        ("30s", timedelta(seconds=30)),
        ("1.5h", timedelta(minutes=90)),
        ("1h30m", timedelta(minutes=90)),
        (" 2D ", timedelta(days=2)),
    ],
)
def test_durations_are_read_with_their_units(text: str, span: timedelta):
    assert arguments.duration(text) == span


@pytest.mark.parametrize("text", ["", "soon", "-5s", "5 s", "5y", "1e3", "s", "9" * 20 + "d"])
def test_what_is_no_duration_is_refused(text: str):
    with pytest.raises(typer.BadParameter):
        arguments.duration(text)


def test_headers_keep_the_type_of_json_and_else_are_text():
    assert arguments.headers(["region=eu", "n=7", "a=b=c", 'o={"x": 1}', "empty="]) == {
        "region": "eu",
        "n": 7,
        "a": "b=c",
        "o": {"x": 1},
        "empty": "",
    }
    assert arguments.headers([]) is None


@pytest.mark.parametrize("pair", ["region", "=eu", ""])
def test_a_header_without_name_or_value_is_refused(pair: str):
    with pytest.raises(typer.BadParameter, match="name=value"):
        arguments.headers([pair])


@pytest.mark.parametrize("text", ["{", "NaN", "-Infinity", "hello", "", "[" * 100_000])
def test_a_payload_that_is_not_json_is_refused_with_a_way_out(text: str):
    with pytest.raises(typer.BadParameter, match="--text"):
        arguments.payload(text)


def test_a_filter_must_be_an_object():
    assert arguments.json_object('{"headers": {}}', "--filter") == {"headers": {}}
    with pytest.raises(typer.BadParameter, match="object"):
        arguments.json_object("[1]", "--filter")


def test_json_gets_iso_times_and_seconds():
    value = {
        "at": datetime(2026, 1, 1, tzinfo=UTC),
        "span": timedelta(seconds=1.5),
        "ordering": Ordering.FIFO,
        "list": (1, None, True),
    }
    assert output.plain(value) == {
        "at": "2026-01-01T00:00:00+00:00",
        "span": 1.5,
        "ordering": "fifo",
        "list": [1, None, True],
    }


def test_a_terminal_never_obeys_what_others_wrote():
    assert output.clean("a\x1b[2Jb\u009bc\nd") == "a\\x1b[2Jb\\x9bc\\nd"
    assert output.clean("grün – 注文 🚚") == "grün – 注文 🚚"


def test_an_error_is_one_line_and_its_cure_another():
    message, cure = explain(EngineError("it is\tfull", hint="make\nroom"))
    assert (message, cure) == ("it is full", "make room")


def test_the_command_line_speaks_of_commands_where_the_engine_speaks_of_functions():
    _, cure = explain(UnknownTopic("no such topic", hint="Create it with penstock.create_topic()."))
    assert cure is not None
    assert "penstock topic create" in cure


def test_an_error_without_a_cure_is_one_line():
    assert explain(DatabaseUnavailable("gone")) == ("gone", None)
