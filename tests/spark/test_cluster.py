"""The same suites on a standalone cluster and through Spark Connect, in processes of their own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.spark.cluster import connect_server, environment, standalone

HERE = Path(__file__).parent
SMOKE = ["test_smoke.py"]
# What goes through Spark; the rest talks to the database directly and is the same everywhere.
SUITES = ["test_smoke.py", "test_write.py", "test_batch_read.py", "test_streams.py"]


def run(files: list[str], *words: str) -> None:
    """Run tests of this folder elsewhere."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--timeout", "600"]
    command += words
    done = subprocess.run(
        [*command, *(str(HERE / file) for file in files)],
        capture_output=True,
        text=True,
        check=False,
        env=environment(),
        cwd=HERE.parents[1],
    )
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]


@pytest.mark.prove
@pytest.mark.timeout(700)
def test_smoke_on_a_cluster(tmp_path: Path) -> None:
    with standalone(tmp_path) as master:
        run(SMOKE, "--spark-master", master)


@pytest.mark.prove
@pytest.mark.timeout(700)
def test_smoke_through_connect(tmp_path: Path) -> None:
    with connect_server(tmp_path) as remote:
        run(SMOKE, "--spark-remote", remote)


@pytest.mark.prove
@pytest.mark.timeout(1800)
def test_suites_on_a_cluster(tmp_path: Path) -> None:
    with standalone(tmp_path) as master:
        run(SUITES, "--spark-master", master)


@pytest.mark.prove
@pytest.mark.timeout(1800)
def test_suites_through_connect(tmp_path: Path) -> None:
    with connect_server(tmp_path) as remote:
        run(SUITES, "--spark-remote", remote)
