"""Spark Declarative Pipelines: our source in a flow, our sink at its end."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from tests.spark.cluster import HOME, environment
from tests.sql.test_streams import publish

if TYPE_CHECKING:
    from pathlib import Path

    from tests.fixtures.databases import Database

pytestmark = [pytest.mark.prove, pytest.mark.timeout(900)]

SPEC = """
name: copies
storage: file://{folder}/storage
libraries:
  - glob:
      include: flows/**
"""
FLOWS = """
from pyspark import pipelines as dp
from pyspark.sql import SparkSession

spark = SparkSession.active()

@dp.table
def orders():
    return spark.readStream.format("penstock").options(
        url="{url}", subscribe="orders", startingOffsets="earliest").load()

dp.create_sink("copies", "penstock", {{"url": "{url}", "topic": "copies"}})

@dp.append_flow(target="copies")
def copy():
    return spark.readStream.table("orders").select("key", "value")
"""


def test_flows_read_and_write_topics(database: Database, db: Any, tmp_path: Path) -> None:
    for name in ("orders", "copies"):
        db.execute("select penstock.create_topic(%s)", (name,))
    publish(db, "orders", *range(10))
    (tmp_path / "flows").mkdir()
    (tmp_path / "spark-pipeline.yml").write_text(SPEC.format(folder=tmp_path))
    flows = FLOWS.format(url=database.tcp_dsn)
    (tmp_path / "flows" / "copies.py").write_text(flows)
    done = subprocess.run(
        [str(HOME / "bin" / "spark-pipelines"), "run"],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    found = db.execute("select payload from penstock.log where topic = 'copies' order by payload")
    assert [payload for (payload,) in found] == list(range(10))
