"""The reference of options and columns is current, and complete."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from penstock.spark.source.columns import ENTITIES
from penstock.spark.source.option_names import OPTIONS, READ, STREAM, InvalidOption
from penstock.spark.source.source_options import read_options, write_options

ROOT = Path(__file__).parents[2]


def test_reference_is_current() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "tools" / "spark_reference.py", "--check"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_every_option_and_column_is_told_of() -> None:
    text = (ROOT / "docs" / "reference" / "spark.md").read_text(encoding="utf-8")
    names = [option.name for option in OPTIONS]
    names += [column.name for columns in ENTITIES.values() for column in columns]
    assert [name for name in names if f"| `{name}` |" not in text] == []


@pytest.mark.parametrize("option", OPTIONS, ids=lambda option: option.name)
def test_every_option_is_known_where_it_says(option) -> None:  # type: ignore[no-untyped-def]
    """A value of no kind is refused for its value, or taken; never for its name."""
    given = {option.name: "orders", "subscribe": "orders"}
    said = [problem_with(given, use) for use in option.uses]
    assert not any("there is no option" in each or "is not for" in each for each in said)


def problem_with(given: dict[str, str], use: str) -> str:
    try:
        if use in {READ, STREAM}:
            read_options(given, stream=use == STREAM)
        else:
            write_options({name: value for name, value in given.items() if name != "subscribe"})
    except InvalidOption as problem:
        return str(problem)
    return ""
