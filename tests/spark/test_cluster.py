"""The same suites on a standalone cluster and through Spark Connect, in processes of their own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.spark.cluster import connect_server, environment, standalone, without_the_package
from tests.sql.test_streams import publish

if TYPE_CHECKING:
    from tests.fixtures.databases import Database

HERE = Path(__file__).parent
SMOKE = ["test_smoke.py"]
# What goes through Spark; the rest talks to the database directly and is the same everywhere.
PIPELINES = [f"../pipelines/test_{name}.py" for name in ("archive", "route", "analyse", "ingest")]
PIPELINES += [
    f"../pipelines/test_{name}.py" for name in ("replay", "migrate", "stateful", "batches")
]
SUITES = ["test_smoke.py", "test_write.py", "test_batch_read.py", "test_streams.py"]


ALL = ("-m", "prove or not prove")


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


TRAVELLER = """
import sys
from penstock.spark import attach, session

remote, url = sys.argv[1:]
spark = session(remote=remote)
reader = spark.read.format("penstock").options(url=url, subscribe="orders")
try:
    reader.load().count()
    print("it was there already")
except Exception as problem:
    print("DATA_SOURCE_NOT_FOUND" in str(problem))
attach(spark)
frame = reader.load()
print(frame.count())
writer = frame.select("value").write.format("penstock").options(url=url, topic="copies")
writer.mode("append").save()
"""


@pytest.mark.prove
@pytest.mark.timeout(700)
def test_code_travels_to_a_server_and_executors_that_have_not_got_the_package(
    database: Database, db: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("orders", "copies"):
        db.execute("select penstock.create_topic(%s)", (name,))
    publish(db, "orders", 1, 2, 3)
    monkeypatch.setenv("PENSTOCK_TEST_PYTHON", str(without_the_package(tmp_path)))
    with standalone(tmp_path) as master, connect_server(tmp_path, master) as remote:
        done = subprocess.run(
            [sys.executable, "-c", TRAVELLER, remote, database.tcp_dsn],
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.stdout.split("\n")[:2] == ["True", "3"], done.stderr[:6000]
    copied = db.execute(
        "select payload from penstock.messages where topic_id = "
        "(select id from penstock.topics where name = 'copies') order by 1"
    ).fetchall()
    assert copied == [(1,), (2,), (3,)]


@pytest.mark.prove
@pytest.mark.timeout(1800)
def test_pipelines_on_a_cluster(tmp_path: Path) -> None:
    with standalone(tmp_path) as master:
        run(PIPELINES, "--spark-master", master, *ALL)


@pytest.mark.prove
@pytest.mark.timeout(1800)
def test_pipelines_through_connect(tmp_path: Path) -> None:
    with connect_server(tmp_path) as remote:
        run(PIPELINES, "--spark-remote", remote, *ALL)


@pytest.mark.prove
@pytest.mark.timeout(1800)
def test_pipelines_bring_their_code_to_executors_that_have_not_got_the_package(
    database: Database, db: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    db.execute("select penstock.create_topic('orders')")
    publish(db, "orders", 1, 2, 2)
    monkeypatch.setenv("PENSTOCK_TEST_PYTHON", str(without_the_package(tmp_path)))
    lake = str(tmp_path / "lake")
    here = tmp_path / "here"
    here.mkdir()
    (here / "rules.py").write_text(FUNCTION)
    with standalone(tmp_path) as master, connect_server(tmp_path, master) as remote:
        for words in (
            ["archive", "orders", "--to", lake, "--once"],
            ["replay", "--archive", lake, "--to", "again"],
            ["route", "orders", "--function", "rules:double", "--once"],
            ["analyse", str(tmp_path / "history"), "--once"],
        ):
            done = pipeline(database, *words, "--remote", remote, at=here)
            assert done.returncode == 0, (words, done.stderr)
    assert amounts(db, "again") == [1, 2, 2]
    assert amounts(db, "doubles") == [2, 4, 4]


FUNCTION = """
def double(message):
    return {"topic": "doubles", "payload": 2 * message["payload"]}
"""


def amounts(db: Any, topic: str) -> list[int]:
    found = db.execute(
        "select payload::int from penstock.log where topic = %s order by 1", (topic,)
    )
    return [number for (number,) in found]


def pipeline(database: Database, *words: str, at: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "penstock.cli", "pipeline", *words],
        capture_output=True,
        text=True,
        check=False,
        cwd=at,
        env={
            **environment(),
            "PENSTOCK_DSN": database.tcp_dsn,
            "PENSTOCK_DATA_DIR": str(at / "data"),
        },
    )
