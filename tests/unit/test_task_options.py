"""The options of a task store: what is not given is as `Settings` and the environment say."""

from __future__ import annotations

from datetime import timedelta

import pytest

from penstock.errors import InvalidSetting
from penstock.settings import Settings
from penstock.tasks import InvalidTask, StoreOptions

DSN = "postgresql://ada@host/shop"


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DSN", "POOLER", "POOL_SIZE", "CALL_TIMEOUT", "RETRY_FOR", "APPLICATION_NAME"):
        monkeypatch.delenv(f"PENSTOCK_{name}", raising=False)


def test_without_options_the_defaults_of_settings_apply() -> None:
    assert StoreOptions().settings(DSN) == Settings(dsn=DSN, application_name="penstock tasks")


def test_the_environment_applies_to_tasks_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_POOLER", "yes")
    monkeypatch.setenv("PENSTOCK_CALL_TIMEOUT", "7")
    monkeypatch.setenv("PENSTOCK_APPLICATION_NAME", "shop")
    found = StoreOptions().settings(DSN)
    assert (found.pooler, found.call_timeout) == (True, timedelta(seconds=7))
    assert found.application_name == "shop"


def test_an_option_wins_over_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_POOL_SIZE", "7")
    monkeypatch.setenv("PENSTOCK_RETRY_FOR", "7")
    found = StoreOptions(pool_size=3, retry_for=timedelta(0)).settings(DSN)
    assert (found.pool_size, found.retry_for) == (3, timedelta(0))


def test_a_mysql_dsn_in_the_environment_is_no_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_DSN", "mysql://ada@host/shop")
    assert StoreOptions().settings().dsn is None


def test_values_that_can_not_be_used_are_refused() -> None:
    with pytest.raises(InvalidTask, match="pool_size"):
        StoreOptions(pool_size=0)
    with pytest.raises(InvalidSetting, match="call_timeout"):
        StoreOptions(call_timeout=timedelta(0)).settings(DSN)
