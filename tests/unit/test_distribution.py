"""Which tests stay together when several workers share them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fixtures.distribution import group_of

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("test", "group"),
    [
        ("tests/spark/test_write.py::test_a[pg18-x::y]", "spark"),
        ("tests/pipelines/test_route.py::test_b", "spark"),
        ("tests/sqs/test_polls.py::test_c[json]", "tests/sqs/test_polls.py"),
        ("tests/sqs_sql/test_many.py::test_d", "tests/sqs_sql/test_many.py::test_d"),
        ("tests/unit/test_calls.py::test_e[a@b]", "tests/unit/test_calls.py::test_e[a@b]"),
    ],
)
def test_tests_that_share_something_expensive_are_a_group(test: str, group: str):
    assert group_of(test) == group


def test_a_group_runs_in_one_worker(tmp_path: Path):
    """pytest and pytest-xdist in the versions at hand do what the groups are made for."""
    folder = tmp_path / "tests" / "spark"
    folder.mkdir(parents=True)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (folder / "test_some.py").write_text(
        "import os, pathlib, pytest\n"
        "@pytest.mark.parametrize('number', range(12))\n"
        "def test_this(number):\n"
        "    pathlib.Path(f'worker-{os.environ[\"PYTEST_XDIST_WORKER\"]}').touch()\n"
    )
    (folder.parent / "test_alone.py").write_text("def test_that(): pass\n")
    ran = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "-n", "2", "--dist", "loadgroup"),
            *("-p", "tests.fixtures.distribution", "-p", "no:cacheprovider"),
        ],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'src'}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout
    assert len(list(tmp_path.glob("worker-*"))) == 1
