"""The demo's last act: its orders archived to Delta, and a report of what became of them."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import platformdirs

from penstock.cli.demo.audit import Finding
from penstock.cli.demo.stage import Stage
from penstock.cli.demo.story import Script
from penstock.spark.session import STACK

MISSING = "pip install 'penstock-mq[spark]' adds a last act: an archive and a report"
# A run of seconds is over before what Java's compilers do at length pays.
_SHORT = {
    "spark.driver.extraJavaOptions": f"{STACK} -XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.shuffle.partitions": "2",
}
_NEEDED = ("pyspark", "deltalake", "adbc_driver_postgresql")


@dataclass(frozen=True, slots=True)
class Finale:
    archive: str
    report: str
    orders: int
    seconds: float
    finding: Finding


def is_possible() -> bool:
    """Spark comes with an extra: without it the demo ends one act earlier."""
    return all(find_spec(name) is not None for name in _NEEDED)


def default_folder() -> Path:
    return Path(platformdirs.user_data_dir("penstock")) / "demo"


def play(
    dsn: str, stage: Stage, script: Script, folder: Path, tell: Callable[[str], None]
) -> Finale:
    """Archive the topic and analyse its queues, as `penstock pipeline` would."""
    from penstock.spark import pipelines

    began = time.monotonic()
    archive, report = folder / "orders", folder / "report.html"
    for old in (archive, folder / "analysis"):
        shutil.rmtree(old, ignore_errors=True)
    with _spark(folder) as spark:
        tell(f"archiving {stage.topic} to Delta …")
        run: dict[str, Any] = {"url": dsn, "spark": spark}
        pipelines.archive(stage.topic, archive, **run)
        tell("making the report …")
        pipelines.analyse(
            folder / "analysis",
            topics=stage.topic,
            title="What became of the demo's orders",
            report=report,
            **run,
        )
    found = _check(archive, script)
    return Finale(str(archive), str(report), found[1], round(time.monotonic() - began, 1), found[0])


def _spark(folder: Path) -> Any:
    from penstock.spark.pipelines.session import opened

    return opened(log=folder / "spark.log", conf=_SHORT)


def _check(archive: Path, script: Script) -> tuple[Finding, int]:
    """Every order is in the archive, and none twice, as another reader of Delta sees it."""
    from deltalake import DeltaTable

    values = DeltaTable(str(archive)).to_pyarrow_table(columns=["value"])["value"].to_pylist()
    orders = [json.loads(value)["order"] for value in values]
    ok = sorted(orders) == sorted(script.orders)
    planned = len(script.orders)
    said = f"archive: {len(set(orders))} of {planned} orders in {len(orders)} rows of Delta"
    return Finding(ok, said), len(orders)
