"""What pipelines run on executors needs no Penstock there."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark import cloudpickle

from penstock.spark import pipelines
from penstock.spark.pipelines import checking, origin
from penstock.spark.pipelines.lake import files
from penstock.spark.pipelines.migrate import kafka
from penstock.spark.pipelines.route import functions

if TYPE_CHECKING:
    from collections.abc import Iterator

ELSEWHERE = """
import pickle, sys
sys.modules["penstock"] = None
run = pickle.load(sys.stdin.buffer)
print(callable(run))
"""
RUN = {
    "files written": files.writer(files.Layout("lake")),
    "files read": files.reader(pa.schema([("value", pa.string())])),
    "rows checked": checking.checker(),
    "origins marked": origin.marker(),
    "functions": functions.runner(lambda message: message),
    "records of Kafka": kafka.converter("orders", base64=True),
}


@pytest.fixture
def by_value() -> Iterator[None]:
    cloudpickle.register_pickle_by_value(pipelines)
    yield
    cloudpickle.unregister_pickle_by_value(pipelines)


@pytest.mark.usefixtures("by_value")
@pytest.mark.parametrize("name", RUN)
def test_it_travels(name: str) -> None:
    packed: Any = cloudpickle.dumps(RUN[name])
    done = subprocess.run(
        [sys.executable, "-c", ELSEWHERE], input=packed, capture_output=True, check=False
    )
    assert done.stdout == b"True\n", done.stderr.decode()
