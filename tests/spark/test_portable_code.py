"""Code that travels with a job, to processes in which the package can't be imported."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from pyspark import cloudpickle
from pyspark.sql.datasource import DataSource

from penstock.spark.source.portable_code import portable_source
from tests.spark.cluster import HIDING
from tests.sql.test_streams import publish

if TYPE_CHECKING:
    from tests.fixtures.databases import Database

# A machine without the package, one question to a process as Spark asks them.
ELSEWHERE = """
import pickle
{hiding}
from pyspark import cloudpickle

given = [pickle.loads(each) for each in pickle.load(sys.stdin.buffer)]
answer = (lambda {names}: {question})(*given)
sys.stdout.buffer.write(pickle.dumps([cloudpickle.dumps(each) for each in answer]))
"""


def ask(question: str, **given: bytes) -> list[bytes]:
    program = ELSEWHERE.format(hiding=HIDING, names=", ".join(given), question=question)
    done = subprocess.run(
        [sys.executable, "-c", program],
        input=pickle.dumps(list(given.values())),
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    answer: list[bytes] = pickle.loads(done.stdout)
    return answer


@pytest.fixture
def source(database: Database, db: Any) -> bytes:
    db.execute("select penstock.create_topic('orders')")
    publish(db, "orders", 1, 2, 3)
    packed: bytes = cloudpickle.dumps(portable_source(DataSource))
    return packed


def test_nothing_can_be_imported_there() -> None:
    with pytest.raises(AssertionError, match="ModuleNotFoundError"):
        ask("[__import__('penstock.spark')]")


def test_read_where_the_package_is_missing(source: bytes, database: Database) -> None:
    options = pickle.dumps({"url": database.tcp_dsn, "path": "orders"})
    reader, *tasks = ask(
        "(lambda made: (lambda reader: [reader, *reader.partitions()])(made.reader(made.schema())))"
        "(kind(options))",
        kind=source,
        options=options,
    )
    [rows] = ask(
        "[[row['value'] for batch in reader.read(task) for row in batch.to_pylist()]]",
        reader=reader,
        task=tasks[0],
    )
    assert pickle.loads(rows) == ["1", "2", "3"]


def test_write_where_the_package_is_missing(source: bytes, database: Database, db: Any) -> None:
    options = pickle.dumps({"url": database.tcp_dsn, "topic": "orders"})
    [writer] = ask(
        "[kind(options).writer(__import__('pyspark.sql.types').sql.types.StructType()"
        ".add('value', 'string'), False)]",
        kind=source,
        options=options,
    )
    batch = "__import__('pyarrow').RecordBatch.from_pydict({'value': ['4', '5']})"
    [staged] = ask(f"[writer.write(iter([{batch}]))]", writer=writer)
    ask("[writer.commit([staged])]", writer=writer, staged=staged)
    found = db.execute("select payload from penstock.log order by id").fetchall()
    assert [json.loads(str(payload)) for (payload,) in found] == [1, 2, 3, 4, 5]
