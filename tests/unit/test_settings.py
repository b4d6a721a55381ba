"""Settings come from arguments, then PENSTOCK_*, then defaults, and are checked at once."""

from __future__ import annotations

from dataclasses import fields
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from penstock.errors import InvalidSetting
from penstock.settings import Settings, SettingsOptions


def test_nothing_set_means_defaults() -> None:
    assert Settings.load({}) == Settings()


def test_environment_is_read() -> None:
    loaded = Settings.load(
        {
            "PENSTOCK_DSN": "postgresql://me@there/db",
            "PENSTOCK_DATA_DIR": "~/queue",
            "PENSTOCK_POOL_SIZE": "3",
            "PENSTOCK_CONNECT_TIMEOUT": "2.5",
            "PENSTOCK_CALL_TIMEOUT": "7",
            "PENSTOCK_APPLICATION_NAME": "billing",
        }
    )
    assert loaded == Settings(
        dsn="postgresql://me@there/db",
        data_dir=Path.home() / "queue",
        pool_size=3,
        connect_timeout=timedelta(seconds=2.5),
        call_timeout=timedelta(seconds=7),
        application_name="billing",
    )


def test_argument_wins_over_environment() -> None:
    assert Settings.load({"PENSTOCK_POOL_SIZE": "3"}, pool_size=4).pool_size == 4


def test_argument_of_none_leaves_the_environment_alone() -> None:
    assert Settings.load({"PENSTOCK_DSN": "dbname=a"}, dsn=None).dsn == "dbname=a"


def test_empty_variable_counts_as_unset() -> None:
    assert Settings.load({"PENSTOCK_DSN": " ", "PENSTOCK_POOL_SIZE": ""}) == Settings()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PENSTOCK_POOL_SIZE", "many"),
        ("PENSTOCK_POOL_SIZE", "0"),
        ("PENSTOCK_POOL_SIZE", "100000"),
        ("PENSTOCK_CALL_TIMEOUT", "0"),
        ("PENSTOCK_CONNECT_TIMEOUT", "soon"),
        ("PENSTOCK_CONNECT_TIMEOUT", "-1"),
        ("PENSTOCK_CONNECT_TIMEOUT", "nan"),
        ("PENSTOCK_START_TIMEOUT", "1e30"),
        ("PENSTOCK_APPLICATION_NAME", "x" * 64),
        ("PENSTOCK_DSN", "postgresql://[::1/db"),
        ("PENSTOCK_DSN", "nonsense"),
        ("PENSTOCK_DSN", "postgresql://h/\udc80"),
        ("PENSTOCK_DSN", "postgresql://u:p%ff@h/d"),
        ("PENSTOCK_APPLICATION_NAME", "\udc80"),
        ("PENSTOCK_DATA_DIR", "~nobody-of-this-name/data"),
    ],
)
def test_bad_value_is_refused_by_name(name: str, value: str) -> None:
    with pytest.raises(InvalidSetting) as caught:
        Settings.load({name: value})
    setting = name.removeprefix("PENSTOCK_").lower()
    assert any(word in str(caught.value) for word in (name, setting, setting.upper()))


@pytest.mark.parametrize(
    "dsn",
    [
        "host=x password=secret nonsense",
        "postgresql://me:secret@[::1/db",
        "postgresql://me:secret@h/d?x=y",
    ],
)
def test_bad_dsn_does_not_show_its_password(dsn: str) -> None:
    with pytest.raises(InvalidSetting) as caught:
        Settings.load({}, dsn=dsn)
    assert "secret" not in str(caught.value)


def test_unknown_setting_is_refused() -> None:
    with pytest.raises(InvalidSetting, match="poolsize"):
        Settings.load({}, poolsize=3)


@pytest.mark.parametrize(
    ("text", "value"), [("yes", True), ("1", True), ("On", True), ("no", False), ("0", False)]
)
def test_a_switch_is_yes_or_no(text: str, value: bool):
    assert Settings.load({"PENSTOCK_POOLER": text}).pooler is value


def test_a_switch_that_is_neither_is_refused():
    with pytest.raises(InvalidSetting, match="PENSTOCK_POOLER is 'maybe'"):
        Settings.load({"PENSTOCK_POOLER": "maybe"})


def test_patience_may_be_none_but_not_negative():
    assert Settings.load({"PENSTOCK_RETRY_FOR": "0"}).retry_for == timedelta(0)
    with pytest.raises(InvalidSetting, match="retry_for"):
        Settings.load({"PENSTOCK_RETRY_FOR": "-1"})


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"retry_for": 3}, "retry_for is 3: give a timedelta"),
        ({"heartbeat": 5.0}, "heartbeat is 5.0: give a timedelta"),
        ({"pool_size": "many"}, "pool_size is 'many': a whole number"),
        ({"pool": 3}, "there are application_name, .*pool_size"),
    ],
)
def test_an_argument_of_the_wrong_kind_says_what_is_needed(given: Any, told: str) -> None:
    with pytest.raises(InvalidSetting, match=told):
        Settings.load({}, **given)


def test_type_checkers_know_every_setting() -> None:
    known = ["dsn", *SettingsOptions.__annotations__]
    assert known == [field.name for field in fields(Settings)]
