"""archive: every message once, whatever happens to the run; then the log may shrink."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from penstock.errors import InvalidSetting, OtherCluster, UnknownTopic
from penstock.spark.lake import open_lake
from penstock.spark.lake.lake_table import Lake
from penstock.spark.pipelines import archive
from penstock.spark.pipelines.state import State
from tests.fixtures.maintenance import maintain

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
            maintain(shop.db)
        return shop.numbers("orders")

    shop.publish("orders", [{"n": 0}])
    shop(archive, "orders", shop.folder / "lake")
    assert left() == []
    shop.publish("orders", [{"n": 1}])
    assert left() == [1]
    shop(archive, "orders", shop.folder / "lake")
    assert left() == []
    assert shop.archived(open_lake(str(shop.folder / "lake")).read(shop.spark)) == [0, 1]


@pytest.mark.always
def test_a_second_topic_goes_into_the_same_lake(shop: Shop):
    target = shop.folder / "lake"
    shop.db.execute("select penstock.configure('segment_bytes', '1')")
    shop.publish("orders", [{"n": n} for n in range(5)])
    shop.publish("returns", [{"n": n} for n in range(10, 14)])
    shop.db.execute("select penstock.create_queue('keeper', 'returns', start_at => 'beginning')")
    assert shop(archive, "orders", target).rows == 5
    second = shop(archive, "returns", target)
    assert (second.rows, second.lag) == (4, 0)
    # The first one's log is kept, though this run did not read it.
    shop.publish("orders", [{"n": 5}])
    for _time in range(3):
        shop.db.execute("select count(*) from penstock.maintain()")
    shop.publish("returns", [{"n": 14}])
    both = shop(archive, ["orders", "returns"], target)
    assert (both.rows, both.lag) == (2, 0)
    frame = open_lake(str(target)).read(shop.spark)
    assert shop.archived(frame) == [*range(6), *range(10, 15)]
    readers = shop.db.execute("select topic_name, lag from penstock.list_readers()").fetchall()
    assert sorted(readers) == [("orders", 0), ("returns", 0)]


def test_a_batch_that_was_begun_is_ended_before_another_topic(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
):
    shop.publish("orders", [{"n": n} for n in range(5)])
    shop.publish("returns", [{"n": 10}])

    def crash(*_args: Any) -> int:
        raise RuntimeError("the power went")

    with monkeypatch.context() as patch:
        patch.setattr(Lake, "write", crash)
        with pytest.raises(Exception, match="the power went"):
            shop(archive, "orders", shop.folder / "lake")
    assert shop(archive, "returns", shop.folder / "lake").rows == 6


def test_a_state_of_the_release_before_is_read(shop: Shop):
    target = shop.folder / "lake"
    shop.publish("orders", [{"n": n} for n in range(5)])
    shop.publish("returns", [{"n": 10}])
    shop(archive, "orders", target)
    state = State(str(target / "_penstock" / "state"))
    noted = state.read("batches.json")
    for name in ("topics", "timeline", "lsn"):
        noted["start"].pop(name)
    state.write("batches.json", noted)
    shop.publish("orders", [{"n": 5}])
    assert shop(archive, ["orders", "returns"], target).rows == 2
    assert shop.archived(open_lake(str(target)).read(shop.spark)) == [*range(6), 10]


def _lose_the_tail(shop: Shop, state: State) -> None:
    """What a fail-over does: an earlier run of the server gave the offsets, and its end is gone."""
    shop.db.execute(
        "delete from penstock_data.stream_marks m "
        "where m.lsn > (select min(o.lsn) from penstock_data.stream_marks o)"
    )
    shop.db.execute("delete from penstock_data.stream_positions p where p.seq > 1")
    noted = state.read("batches.json")
    timeline, _, run = noted["start"]["timeline"].partition("/")
    noted["start"]["timeline"] = f"{timeline}/{int(run) - 1}"
    state.write("batches.json", noted)
    shop.db.execute("update penstock_data.stream_marks set boot = boot - 1")


def test_a_lost_state_fails_the_run_or_sends_it_back(shop: Shop):
    target = shop.folder / "lake"
    for n in range(2):
        shop.publish("orders", [{"n": n}])
        shop(archive, "orders", target)
    _lose_the_tail(shop, State(str(target / "_penstock" / "state")))
    shop.publish("orders", [{"n": 2}])
    with pytest.raises(OtherCluster, match="lost what the offset stands on"):
        shop(archive, "orders", target)
    again = shop(archive, "orders", target, on_lost_offset="rewind")
    assert again.rows >= 1
    assert set(shop.archived(open_lake(str(target)).read(shop.spark))) == {0, 1, 2}
    shop.publish("orders", [{"n": 3}])
    assert shop(archive, "orders", target).rows == 1


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
