"""What the engine reports has a line on the page that explains it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from penstock.settings import Settings, variable
from penstock.worker import failure_log
from tests.docs.pages import ROOT, Page

if TYPE_CHECKING:
    import psycopg

OPERATE = ROOT / "docs" / "operate"
# Nothing to do about it: it only tells the version.
NO_CURE = {"schema"}
# Set by the engine itself, not by configure().
OWN = {
    "clock_shift",
    "first_segment",
    "last_segment",
    "log_is_full",
    "message_segment",
    "receipt_segment",
}


def _first_cells(name: str) -> str:
    rows = re.findall(r"^\| (.*?) \|", Page(OPERATE / name).text, re.MULTILINE)
    return "\n".join(rows)


def test_every_health_check_is_explained(db: psycopg.Connection[Any]) -> None:
    explained = set(_first_cells("health.md").splitlines())
    checks = {name for (name,) in db.execute("select name from penstock.health()")}
    assert checks - explained <= NO_CURE


def test_every_step_of_maintain_is_explained(db: psycopg.Connection[Any]) -> None:
    explained = set(re.findall(r"\w+", _first_cells("maintain.md")))
    for (step,) in db.execute("select step from penstock.maintain()"):
        assert set(step.split()) <= explained, step


def test_every_setting_is_explained(db: psycopg.Connection[Any]) -> None:
    explained = set(re.findall(r"`([a-z_]+)`", _first_cells("settings.md")))
    settings = {name for (name,) in db.execute("select setting from penstock.configuration()")}
    assert settings == explained | OWN


def test_environment_variables_named_are_read() -> None:
    named = set(re.findall(r"`(PENSTOCK_\w+)`", Page(OPERATE / "settings.md").text))
    read = {variable(field) for field in Settings.__dataclass_fields__}
    assert named <= read | {failure_log.VARIABLE}
