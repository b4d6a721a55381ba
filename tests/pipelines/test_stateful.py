"""dedupe and aggregate: what they remember, they remember over restarts."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from penstock.errors import InvalidSetting, UnknownTopic
from penstock.spark.pipelines import aggregate, dedupe

if TYPE_CHECKING:
    from tests.pipelines.shop import Shop


def test_duplicates_are_dropped_within_and_between_runs(shop: Shop):
    shop.publish("in", [{"n": n} for n in range(4)], keys=["a", "b", "a", "c"])
    shop(dedupe, "in", "out")
    assert sorted(each["key"] for each in shop.messages("out")) == ["a", "b", "c"]
    shop.publish("in", [{"n": n} for n in range(4, 6)], keys=["b", "d"])
    shop(dedupe, "in", "out")
    assert sorted(each["key"] for each in shop.messages("out")) == ["a", "b", "c", "d"]


def test_a_state_is_for_its_topics(shop: Shop):
    shop.publish("in", [{"n": 0}], keys=["a"])
    shop.publish("also", [{"n": 1}], keys=["b"])
    # A reader whose name begins with that of the group may be of somebody else.
    shop.publish("other", [])
    shop.db.execute("select penstock.create_reader('once:other', 'other')")
    # A run that failed before it read anything leaves the state free.
    with pytest.raises(UnknownTopic, match="there is no topic inn"):
        shop(dedupe, "inn", "out", group="once")
    shop(dedupe, ["in", "also"], "out", group="once")
    with pytest.raises(InvalidSetting, match="is of also, in, not of in:"):
        shop(dedupe, "in", "out", group="once")
    (shop.folder / "state-dedupe" / "topics.json").unlink()
    with pytest.raises(InvalidSetting, match="is of also, in, not of in:"):
        shop(dedupe, "in", "out", group="once")
    # A topic that was deleted can't be named any more: the state is of the other one then.
    shop.db.execute("select penstock.delete_topic('also')")
    shop.publish("in", [{"n": 2}, {"n": 3}], keys=["b", "c"])
    shop(dedupe, "in", "out", group="once")
    assert sorted(each["key"] for each in shop.messages("out")) == ["a", "b", "c"]
    with pytest.raises(InvalidSetting, match="is of in, not of other:"):
        shop(dedupe, "other", "out", group="once")


def test_windows_are_counted_once(shop: Shop):
    def at(minutes: int) -> None:
        shop.db.execute(
            "update penstock_data.messages set published_at = '2026-01-01Z'::timestamptz + %s "
            "where published_at > '2026-01-02'",
            (timedelta(minutes=minutes),),
        )

    shop.publish("in", [{"amount": 2}, {"amount": 3}, {"amount": 5}], keys=["a", "b", "a"])
    at(0)
    shop.publish("in", [{"amount": 1}], keys=["a"])
    at(30)
    totals = {"total": "sum(cast(get_json_object(value, '$.amount') as int))"}
    for _time in range(2):
        shop(aggregate, "in", "out", window=timedelta(minutes=10), late=timedelta(0), values=totals)
    found = [
        (each["key"], each["payload"]["count"], each["payload"]["total"])
        for each in shop.messages("out")
    ]
    assert sorted(found) == [("a", 2, 7), ("b", 1, 3)]


def test_a_stream_may_not_feed_itself(shop: Shop):
    with pytest.raises(InvalidSetting, match="write to another topic"):
        shop(dedupe, "in", "in")
