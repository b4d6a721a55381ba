"""Batches as pipelines work on them: bounds and numbers that stay, whatever happens in between."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from penstock.spark.lake import open_lake
from penstock.spark.pipelines import archive, stream_options
from penstock.spark.pipelines.batch_loop import Batch, each_batch
from penstock.spark.pipelines.run import started
from penstock.spark.pipelines.state import State

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tests.pipelines.shop import Shop


class Seen:
    """Notes what every batch holds; may be told to fail."""

    def __init__(self, *, fails_at: int | None = None, ends_at: int | None = None) -> None:
        self.batches: list[tuple[str, int, list[int]]] = []
        self._fails_at, self._ends_at = fails_at, ends_at

    def __call__(self, frame: DataFrame, batch: Batch) -> int:
        numbers = [json.loads(row["value"])["n"] for row in frame.collect()]
        self.batches.append((batch.stream, batch.number, numbers))
        if batch.number == self._fails_at:
            raise RuntimeError("the power went")
        if batch.number == self._ends_at:
            raise KeyboardInterrupt
        return len(numbers)


def work(shop: Shop, seen: Seen, *, max_rows: int | None = 2, **options: Any) -> None:
    options = {"state": shop.folder / "state", **shop.run, **options}
    with started("work", options) as run:
        asked = stream_options.options(run, ["orders"], group="worker", max_rows=max_rows)
        each_batch(run, asked, seen)


def committed(shop: Shop) -> list[Any]:
    """How much the database keeps for the group."""
    return shop.db.execute("select name, lag from penstock.list_readers()").fetchall()


@pytest.mark.always
def test_a_batch_that_failed_is_done_again_with_its_messages_and_number(shop: Shop) -> None:
    shop.publish("orders", [{"n": n} for n in range(5)])
    first, again = Seen(fails_at=1), Seen()
    with pytest.raises(RuntimeError, match="the power went"):
        work(shop, first)
    shop.publish("orders", [{"n": n} for n in range(5, 7)])
    work(shop, again)
    assert [each[1:] for each in first.batches] == [(0, [0, 1]), (1, [2, 3])]
    # The third ends where the log did when the batches before it were planned.
    assert [each[1:] for each in again.batches] == [(1, [2, 3]), (2, [4]), (3, [5, 6])]
    assert len({each[0] for each in first.batches + again.batches}) == 1, "one stream"
    assert [lag for _name, lag in committed(shop)] == [0]


def test_what_is_not_done_is_kept_in_the_log(shop: Shop) -> None:
    shop.publish("orders", [{"n": n} for n in range(5)])
    with pytest.raises(RuntimeError):
        work(shop, Seen(fails_at=1))
    assert [lag for _name, lag in committed(shop)] == [3]


def test_a_state_that_was_deleted_gives_the_stream_another_name(shop: Shop) -> None:
    shop.publish("orders", [{"n": 1}])
    one, other = Seen(), Seen()
    work(shop, one, state=shop.folder / "one")
    shop.publish("orders", [{"n": 2}])
    work(shop, other, state=shop.folder / "other")
    [(first, *_), (second, *_)] = one.batches + other.batches
    assert first != second


def test_it_goes_on_until_it_is_stopped(shop: Shop) -> None:
    shop.publish("orders", [{"n": n} for n in range(5)])
    seen = Seen(ends_at=2)
    with pytest.raises(KeyboardInterrupt):
        work(shop, seen, once=False, every=timedelta(milliseconds=10))
    assert [numbers for *_, numbers in seen.batches] == [[0, 1], [2, 3], [4]]


def test_a_batch_through_which_late_ones_come_is_the_same_again(shop: Shop, connect: Any) -> None:
    late = connect(autocommit=False)
    late.execute("select penstock.create_topic('orders')")
    late.commit()
    late.execute("select penstock.publish_message('orders', '{\"n\": 0}')")
    shop.publish("orders", [{"n": n} for n in range(1, 4)])
    first, again = Seen(fails_at=0), Seen()
    with pytest.raises(RuntimeError):
        work(shop, first, max_rows=None)
    late.commit()
    work(shop, again, max_rows=None)
    assert [each[1:] for each in again.batches] == [(0, [1, 2, 3]), (1, [0])]


def test_the_state_may_be_elsewhere(shop: Shop) -> None:
    shop.publish("orders", [{"n": 1}])
    lake = f"file://{shop.folder}/lake"
    assert shop(archive, "orders", lake).rows == 1
    shop.publish("orders", [{"n": 2}])
    assert shop(archive, "orders", lake).rows == 1
    assert shop.archived(open_lake(lake).read(shop.spark)) == [1, 2]
    state = State(f"{lake}/_penstock/state")
    assert state.read("batches.json")["number"] == 2
    assert state.read("nothing.json") is None
