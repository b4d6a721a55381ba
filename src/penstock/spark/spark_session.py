"""A Spark session that works out of the box: embedded, on a cluster, or through Spark Connect.

It also chooses the Python that Spark starts on this machine.  Spark lets Python find pyspark in an
archive, from which nothing compiled can be kept: every process compiles it again, which takes three
times as long as all the rest of its start, and planning a read starts two of them.  So they are
started by a script that puts the installed package first.
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
from typing import TYPE_CHECKING

from penstock.spark import java

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

# When a stream is stopped in the middle of foreachBatch, Spark looks at the error's text with a
# pattern that calls itself for every character; with Java's usual stack that ends in an overflow.
STACK = "-Xss8m"
_EMBEDDED = {
    "spark.driver.extraJavaOptions": STACK,
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    # One machine: a shuffle into 200 pieces costs more than it spreads.
    "spark.sql.shuffle.partitions": "4",
}
_VARIABLE = "PYSPARK_PYTHON"


def session(
    master: str | None = None,
    remote: str | None = None,
    *,
    name: str = "penstock",
    settings: Mapping[str, str] | None = None,
) -> SparkSession:
    """The session of this process, with the data source ready.

    Without arguments Spark runs inside this process (`local[*]`); `master` names a cluster,
    `remote` a Spark Connect server (`sc://host:15002`).
    """
    from pyspark.sql import SparkSession  # noqa: PLC0415 - JAVA_HOME comes first

    local = remote is None and (master or "local").startswith("local")
    builder = SparkSession.builder.appName(name)
    if remote is not None:
        builder = builder.remote(remote)
    else:
        prepare(local=local)
        builder = builder.master(master or "local[*]")
    for key, value in {**(_EMBEDDED if local else {}), **(settings or {})}.items():
        builder = builder.config(key, value)
    made: SparkSession = builder.getOrCreate()
    return made


def prepare(*, local: bool = False) -> None:
    """What must be settled before Java starts: which Java, which Python, how the two talk."""
    found = java.home()
    if found is not None:
        os.environ["JAVA_HOME"] = str(found)
    choose_python(local=local)
    # Rows through a Unix socket instead of TCP: a sixth more of them.
    os.environ.setdefault("PYSPARK_UDS_MODE", "true")
    # Arrow in Java checks every value against the bounds of its buffer unless it is told not to.
    os.environ.setdefault("ARROW_ENABLE_UNSAFE_MEMORY_ACCESS", "true")
    os.environ.setdefault("ARROW_ENABLE_NULL_CHECK_FOR_GET", "false")


def attach(spark: SparkSession) -> None:
    """Make format("penstock") known to a cluster that has not got the package.

    Where it is installed, on driver and executors, Spark finds the source by itself.  Where it is
    only here, the code travels with the job; the executors need pyarrow, psycopg and
    adbc-driver-postgresql all the same.
    """
    from pyspark.sql.datasource import DataSource  # noqa: PLC0415

    from penstock.spark.source.portable_code import portable_source  # noqa: PLC0415

    spark.dataSource.register(portable_source(DataSource))


def choose_python(*, local: bool) -> None:
    """Set PYSPARK_PYTHON, unless it holds a value that is not ours."""
    chosen = os.environ.get(_VARIABLE)
    if chosen is None or chosen in _our_pythons():
        os.environ[_VARIABLE] = _quick_python() if local else sys.executable


def _our_pythons() -> set[str]:
    return {sys.executable, *([_quick_python()] if _quick_python.cache_info().currsize else [])}


@cache
def _quick_python() -> str:
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
