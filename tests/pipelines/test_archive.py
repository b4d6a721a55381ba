"""archive: every message once, whatever happens to the run; then the log may shrink."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from penstock.errors import InvalidSetting, UnknownTopic
from penstock.spark.pipelines import archive
from penstock.spark.pipelines.lake import open_lake
from penstock.spark.pipelines.lake.base import Lake
from penstock.spark.pipelines.state import State

if TYPE_CHECKING:
    from tests.pipelines.shop import Shop


def test_it_goes_on_where_it_ended_and_lets_the_log_go(shop: Shop):
    target = shop.folder / "lake"
    shop.publish("orders", [{"n": n} for n in range(30)], keys=[f"k{n % 3}" for n in range(30)])
    first = shop(archive, "orders", target, max_rows=20)
    assert (first.rows, first.batches, first.lag) == (30, 2, 0)
    shop.publish("orders", [{"n": n} for n in range(30, 40)])
    second = shop(archive, "orders", target, compact=True)
    assert (second.rows, second.lag) == (10, 0)
    frame = open_lake(str(target)).read(shop.spark)
    assert shop.archived(frame) == list(range(40))
    assert {"key", "value", "topic", "offset", "timestamp", "headers", "day"} <= set(frame.columns)
    # Its reader is the only one, and all is committed: nothing keeps the log any more.
    readers = shop.db.execute(
        "select name, topic_name, lag from penstock.list_readers()"
    ).fetchall()
    assert readers == [(first.details["group"], "orders", 0)]


def test_the_log_is_kept_until_it_is_archived_and_not_longer(shop: Shop):
    shop.db.execute("select penstock.configure('segment_bytes', '1')")

    def left() -> list[int]:
        # Once to close a segment, once to empty those that nobody needs.
        for _time in range(2):
            shop.db.execute("select count(*) from penstock.maintain()")
        return shop.numbers("orders")

    shop.publish("orders", [{"n": 0}])
    shop(archive, "orders", shop.folder / "lake")
    assert left() == []
    shop.publish("orders", [{"n": 1}])
    assert left() == [1]
    shop(archive, "orders", shop.folder / "lake")
    assert left() == []
    assert shop.archived(open_lake(str(shop.folder / "lake")).read(shop.spark)) == [0, 1]


@pytest.mark.parametrize("kind", ["iceberg", "parquet"])
def test_other_formats_and_several_topics(shop: Shop, kind: str):
    shop.publish("orders, large", [{"n": n} for n in range(5)])
    shop.publish("orders", [{"n": n} for n in range(5, 9)])
    shop(archive, ["orders, large", "orders"], shop.folder / "lake", format=kind)
    shop(archive, ["orders, large", "orders"], shop.folder / "lake", format=kind)
    frame = open_lake(str(shop.folder / "lake"), kind).read(shop.spark)
    assert shop.archived(frame) == list(range(9))
    assert {row["topic"] for row in frame.collect()} == {"orders", "orders, large"}


@pytest.mark.always
def test_a_crash_between_the_commit_and_its_note_doubles_nothing(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
):
    shop.publish("orders", [{"n": n} for n in range(10)])
    written = Lake.write

    def then_crash(self: Lake, *args: Any) -> int:
        written(self, *args)
        raise RuntimeError("the power went")

    with monkeypatch.context() as patch:
        patch.setattr(Lake, "write", then_crash)
        with pytest.raises(Exception, match="the power went"):
            shop(archive, "orders", shop.folder / "lake")
    shop.publish("orders", [{"n": n} for n in range(10, 15)])
    shop(archive, "orders", shop.folder / "lake")
    assert shop.archived(open_lake(str(shop.folder / "lake")).read(shop.spark)) == list(range(15))


def test_two_runs_of_one_archive_keep_out_of_each_other(shop: Shop):
    shop.publish("orders", [{"n": 0}])
    state = State(str(shop.folder / "lake" / "_penstock" / "state"))
    with state.held(), pytest.raises(InvalidSetting, match="another run of this pipeline"):
        shop(archive, "orders", shop.folder / "lake")


def test_a_topic_that_is_not_there_is_named(shop: Shop):
    with pytest.raises(UnknownTopic, match="there is no topic nowhere"):
        shop(archive, "nowhere", shop.folder / "lake")
