"""penstock bench: the benchmarks of the source tree."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import typer

import penstock
from penstock.errors import PenstockError

_EXAMPLE = "penstock bench --quick --scenario claim-ack --contestant penstock"


def bench(context: typer.Context) -> None:
    """Measure Penstock beside other queues, on a private server; needs the source tree.

    Options are handed on to python -m bench; penstock bench -- --help tells which there are.
    """
    # Beside src/: the peers it compares with are no part of the package.
    root = Path(penstock.__file__).resolve().parents[2]
    if not (root / "bench" / "__main__.py").is_file():
        raise PenstockError(
            "the benchmarks are no part of the installed package\n"
            "Get the source and run make bench: it installs the queues it compares with as well."
        )
    done = subprocess.run([sys.executable, "-m", "bench", *context.args], cwd=root, check=False)
    raise typer.Exit(done.returncode)


def register(app: typer.Typer) -> None:
    passed_on = {"ignore_unknown_options": True, "allow_extra_args": True}
    app.command(epilog=f"Example: {_EXAMPLE}", context_settings=passed_on)(bench)
