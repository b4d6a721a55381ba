"""analyse: the tables and the report say what happened, and new history is added to the old."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from penstock.spark.pipelines import analyse

if TYPE_CHECKING:
    from tests.pipelines.shop import Shop


def history(shop: Shop, start: int) -> None:
    """Ten messages: eight are done at once, one after a failure, one dies."""
    shop.db.execute("select penstock.create_queue('billing', 'orders', max_delivery_attempts => 2)")
    shop.publish(
        "orders",
        [{"n": n} for n in range(start, start + 10)],
        keys=[f"k{n % 2}" for n in range(10)],
        tenant_ids=["acme"] * 10,
    )
    taken = shop.db.execute(
        "select message_id from penstock.consume_messages_batch('billing', 't', 60, 10)"
    )
    first, second, *others = [number for (number,) in taken]
    nack = "select penstock.nack_message('billing', %s, 't', 0, %s)"
    shop.db.execute("select count(*) from penstock.ack_messages('billing', %s, 't')", (others,))
    shop.db.execute(nack, (first, "busy <script>"))
    shop.db.execute(nack, (second, "poison"))
    again = shop.db.execute(
        "select message_id from penstock.consume_messages_batch('billing', 't', 60, 10)"
    )
    assert sorted(number for (number,) in again) == [first, second]
    shop.db.execute("select penstock.ack_message('billing', %s, 't')", (first,))
    shop.db.execute(nack, (second, "poison"))


def table(shop: Shop, name: str, kind: str) -> list[dict[str, Any]]:
    path = shop.folder / "out" / name
    found = DeltaTable(str(path)).to_pyarrow_table() if kind == "delta" else pq.read_table(path)
    rows: list[dict[str, Any]] = found.to_pylist()
    return rows


@pytest.mark.parametrize(("kind", "rounds"), [("delta", 2), ("parquet", 1)])
def test_tables_and_report_count_what_happened(shop: Shop, kind: str, rounds: int):
    shop.db.execute("select penstock.create_topic('orders')")
    for round_ in range(1, rounds + 1):
        history(shop, round_ * 10)
        done = shop(analyse, shop.folder / "out", topics="orders", format=kind, title="A & B")
        assert done.rows == 12
        [queue] = table(shop, "queues", kind)
        assert (queue["done"], queue["done_at_once"], queue["retried"], queue["dead"]) == (
            9 * round_, 8 * round_, 2 * round_, 1 * round_,
        )  # fmt: skip
        assert queue["failures"] == 3 * round_
        assert 0 <= queue["wait_p50"] <= queue["end_to_end_p99"]
    hours = table(shop, "hours", kind)
    assert sum(row["done"] for row in hours) == 9 * rounds
    assert {row["tenant_id"] for row in hours} == {"acme"}
    assert {(row["key"], row["done"] + row["dead"]) for row in table(shop, "keys", kind)} == {
        ("k0", 5 * rounds),
        ("k1", 5 * rounds),
    }
    assert {(row["error"], row["attempts"]) for row in table(shop, "reasons", kind)} == {
        ("busy <script>", rounds),
        ("poison", 2 * rounds),
    }
    page = (shop.folder / "out" / "report.html").read_text()
    assert "A &amp; B" in page
    assert "busy &lt;script&gt;" in page
    assert "<script" not in page
    assert "acme" in page
    assert done.details["report"] == str(shop.folder / "out" / "report.html")


def test_a_report_of_nothing_says_so(shop: Shop):
    shop.db.execute("select penstock.create_topic('orders')")
    shop.db.execute("select penstock.create_queue('billing', 'orders')")
    assert shop(analyse, shop.folder / "out", queues="billing").rows == 0
    assert "No message was finished" in (shop.folder / "out" / "report.html").read_text()
