"""What pipelines run on executors needs no Penstock there."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark import cloudpickle

from penstock.spark.lake import data_files
from penstock.spark.pipelines import kafka_migration, message_origin, publication, route_rules
from penstock.spark.pipelines.run import executor_code

if TYPE_CHECKING:
    from collections.abc import Iterator

ELSEWHERE = """
import pickle, sys
sys.modules["penstock"] = None
run = pickle.load(sys.stdin.buffer)
print(callable(run))
"""
RUN = {
    "files written": data_files.writer(data_files.Layout("lake")),
    "files read": data_files.reader(pa.schema([("value", pa.string())])),
    "rows checked": publication.checker(),
    "origins marked": message_origin.marker(),
    "functions": route_rules.function_runner(lambda message: message),
    "records of Kafka": kafka_migration.converter("orders", base64=True),
}


@pytest.fixture
def by_value() -> Iterator[None]:
    for package in executor_code():
        cloudpickle.register_pickle_by_value(package)
    yield
    for package in executor_code():
        cloudpickle.unregister_pickle_by_value(package)


@pytest.mark.usefixtures("by_value")
@pytest.mark.parametrize("name", RUN)
def test_executors_need_no_package(name: str) -> None:
    packed: Any = cloudpickle.dumps(RUN[name])
    done = subprocess.run(
        [sys.executable, "-c", ELSEWHERE], input=packed, capture_output=True, check=False
    )
    assert done.stdout == b"True\n", done.stderr.decode()
