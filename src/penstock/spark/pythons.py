"""Which Python Spark starts for its workers on this machine.

Spark lets Python find pyspark in an archive, from which nothing compiled can be kept: every process
compiles it again, which takes three times as long as all the rest of its start, and planning a read
starts two of them.  So they are started by a script that puts the installed package first.
"""

from __future__ import annotations

import atexit
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

_VARIABLE = "PYSPARK_PYTHON"


def choose(*, local: bool) -> None:
    """Set PYSPARK_PYTHON, unless it holds a value that is not ours."""
    chosen = os.environ.get(_VARIABLE)
    if chosen is None or chosen in _ours():
        os.environ[_VARIABLE] = _quick() if local else sys.executable


def _ours() -> set[str]:
    return {sys.executable, *([_quick()] if _quick.cache_info().currsize else [])}


@cache
def _quick() -> str:
    """The script, or the plain Python where there is another Spark or scripts can't be run."""
    import pyspark  # noqa: PLC0415 - an extra

    if "SPARK_HOME" in os.environ or os.name != "posix":
        return sys.executable
    packages = Path(pyspark.__file__).parents[1]
    script = _written(
        "#!/bin/sh\n"
        f"PYTHONPATH={shlex.quote(str(packages))}${{PYTHONPATH:+:$PYTHONPATH}}\n"
        "export PYTHONPATH\n"
        f'exec {shlex.quote(sys.executable)} "$@"\n'
    )
    return str(script) if _runs(script) else sys.executable


def _written(text: str) -> Path:
    folder = Path(tempfile.mkdtemp(prefix="penstock-python-"))
    atexit.register(_remove, folder, os.getpid())
    script = folder / "python"
    script.write_text(text, encoding="utf-8")
    script.chmod(0o700)
    return script


def _remove(folder: Path, owner: int) -> None:
    # A fork that ends is not the one who made it.
    if os.getpid() == owner:
        shutil.rmtree(folder, ignore_errors=True)


def _runs(script: Path) -> bool:
    """Temporary folders may be mounted so that nothing in them can be executed."""
    try:
        return subprocess.run([script, "-S", "-c", ""], check=False).returncode == 0
    except OSError:
        return False
