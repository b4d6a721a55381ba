"""A plugin of pytest that measures which lines and branches of src the tests run.

    python -m pytest -p tools.measured tests/unit
    python -m coverage combine && python -m coverage report

Tests of the folders in MEASURED are measured, whatever else runs beside them: measuring makes
Python slower by a fifth, and those of the engine's SQL call little of it.  Every worker of
pytest-xdist measures itself and leaves a file in build/coverage.  Measuring begins here, before
pytest loads the plugin of `penstock.testing`, so that lines run at import count.  Programs that
tests start are not measured; pyproject.toml leaves out what runs only there.
"""

from __future__ import annotations

import atexit
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import coverage
import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = (
    "client",
    "dashboard",
    "integrations",
    "observe",
    "sqs",
    "tasks",
    "testing",
    "unit",
    "worker",
)
MEASURED = tuple(ROOT / "tests" / name for name in FOLDERS)

_measured = coverage.Coverage(config_file=ROOT / "pyproject.toml")


def _end() -> None:
    _measured.stop()
    _measured.save()


def pytest_configure(config: pytest.Config) -> None:
    """Forget the last run, once, before the workers begin."""
    if not hasattr(config, "workerinput"):
        shutil.rmtree(ROOT / "build" / "coverage", ignore_errors=True)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[object]:
    if any(folder in item.path.parents for folder in MEASURED):
        return (yield)
    _measured.stop()
    try:
        return (yield)
    finally:
        _measured.start()


_measured.start()
atexit.register(_end)
