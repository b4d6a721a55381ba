"""Whoever uses a part without its extra is told what to install."""

from __future__ import annotations

import subprocess
import sys

import pytest

from penstock.errors import MissingExtra, PenstockError
from penstock.extras import needs

# A module that stands for None in sys.modules is as good as not installed.
PROGRAM = """
import sys
sys.modules["{package}"] = None
try:
    import {module}
except ImportError as problem:
    print(type(problem).__name__, problem)
"""


@pytest.mark.parametrize(
    ("module", "package", "extra"),
    [
        ("penstock.observe.metrics", "prometheus_client", "metrics"),
        ("penstock.observe.tracing", "opentelemetry", "tracing"),
        ("penstock.integrations.django", "django", "django"),
        ("penstock.integrations.fastapi", "starlette", "fastapi"),
        ("penstock.integrations.sqlalchemy", "sqlalchemy", "sqlalchemy"),
    ],
)
def test_missing_package_is_named_with_its_extra(module: str, package: str, extra: str) -> None:
    program = PROGRAM.format(module=module, package=package)
    printed = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout
    assert printed.startswith(f"MissingExtra {package}")
    assert f"pip install 'penstock[{extra}]'" in printed


def test_it_is_an_import_error_and_one_of_ours() -> None:
    assert issubclass(MissingExtra, ImportError)
    assert issubclass(MissingExtra, PenstockError)


def test_mistake_of_our_own_is_not_blamed_on_an_extra() -> None:
    def mistaken() -> None:
        with needs("metrics"):
            raise ModuleNotFoundError("no module", name="penstock.nowhere")

    with pytest.raises(ModuleNotFoundError, match="no module"):
        mistaken()
