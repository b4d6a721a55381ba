"""Type hints as a user meets them: a program of his passes `mypy --strict`, and mistakes don't."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import penstock

PROGRAM = Path(__file__).with_name("user_program.py")


def test_a_users_program_passes_a_strict_type_checker(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--config-file="]
    cache = ["--cache-dir", str(tmp_path / "cache")]
    # Elsewhere, and by the installed package: as a user has it.
    program = tmp_path / "shop.py"
    program.write_text(PROGRAM.read_text(encoding="utf-8"), encoding="utf-8")
    done = subprocess.run(
        [*command, *cache, str(program)],
        cwd=tmp_path,
        env=os.environ,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout + done.stderr == ""


def test_the_package_says_that_it_has_types() -> None:
    assert (Path(penstock.__file__).parent / "py.typed").exists()


def test_importing_it_brings_nothing_that_is_optional() -> None:
    optional = "pydantic sqlalchemy django starlette opentelemetry prometheus_client cloudevents"
    optional += " asyncpg rich typer pytest uvicorn asyncmy cryptography watchfiles"
    program = (
        f"import sys, penstock, penstock.sync; print({{*'{optional}'.split()}} & {{*sys.modules}})"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "set()"


def test_every_public_name_says_what_it_is() -> None:
    kinds = [name for name in penstock.__all__ if isinstance(getattr(penstock, name), type)]
    # A dataclass without one is given its signature by Python.
    silent = [
        name for name in kinds if (getattr(penstock, name).__doc__ or "(").startswith(f"{name}(")
    ]
    assert silent == []
    assert penstock.connect.__doc__
