"""The shortest proof that everything works where these tests run: write, read, stream."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.spark.jobs import Jobs


def test_write_read_and_stream(jobs: Jobs, db: Any) -> None:
    for name in ("orders", "copies"):
        db.execute("select penstock.create_topic(%s)", (name,))
    jobs.write(jobs.rows(50, "string(n) as key", "struct(n) as value"), topic="orders")
    assert jobs.read(subscribe="orders").where("key = '7'").count() == 1
    frame = jobs.stream(subscribe="orders", startingOffsets="earliest", group="copy")
    jobs.copy(frame.select("key", "value"), "smoke", topic="copies")
    numbers = db.execute("select (payload -> 'n')::int from penstock.log where topic = 'copies'")
    assert sorted(number for (number,) in numbers) == list(range(1, 51))
    assert db.execute("select lag from penstock.list_readers()").fetchone() == (0,)
