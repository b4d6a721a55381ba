"""Dedupe keys: a key seen within its window returns the first message and publishes nothing."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from tests.fixtures.clock import advance
from tests.fixtures.maintenance import maintain

if TYPE_CHECKING:
    from tests.fixtures.databases import Connect
    from tests.sql.caller import Caller


@pytest.fixture(autouse=True)
def queue(mq: Caller) -> None:
    mq("create_queue", "q", "t")


def test_second_message_with_a_key_returns_the_first_ones_id(mq: Caller) -> None:
    first = mq.publish("t", "first", dedupe_key="k")
    assert mq.publish("t", "second", dedupe_key="k") == first
    assert mq.payloads("q") == ["first"]


def test_key_counts_even_after_the_message_is_done(mq: Caller) -> None:
    first = mq.publish("t", "first", dedupe_key="k")
    mq.drain("q")
    assert mq.publish("t", "second", dedupe_key="k") == first
    assert mq.payloads("q") == []


def test_key_is_forgotten_after_five_minutes(mq: Caller) -> None:
    first = mq.publish("t", 1, dedupe_key="k")
    advance(mq.db, seconds=299)
    assert mq.publish("t", 2, dedupe_key="k") == first
    advance(mq.db, seconds=2)
    second = mq.publish("t", 3, dedupe_key="k")
    assert second != first
    assert mq.publish("t", 4, dedupe_key="k") == second
    assert mq.payloads("q") == [1, 3]


def test_window_can_be_named_by_the_publisher(mq: Caller) -> None:
    hour = timedelta(hours=1)
    first = mq.publish("t", 1, dedupe_key="k", dedupe_window=hour)
    advance(mq.db, seconds=3500)
    assert mq.publish("t", 2, dedupe_key="k", dedupe_window=hour) == first
    advance(mq.db, seconds=200)
    assert mq.publish("t", 3, dedupe_key="k", dedupe_window=hour) != first


def test_window_can_be_configured(mq: Caller) -> None:
    mq("configure", "dedupe_window", "10 seconds")
    first = mq.publish("t", 1, dedupe_key="k")
    advance(mq.db, seconds=11)
    assert mq.publish("t", 2, dedupe_key="k") != first


def test_topics_and_spellings_do_not_share_keys(mq: Caller) -> None:
    mq("create_topic", "other")
    keys = ["k", "K", "k ", " k", ""]
    ids = [mq.publish("t", 1, dedupe_key=key) for key in keys]
    assert len(set(ids)) == len(keys)
    assert mq.publish("other", 1, dedupe_key="k") not in ids


def test_publish_messages_dedupes_each_against_all(mq: Caller) -> None:
    first = mq.publish("t", "a", dedupe_key="a")
    ids = mq.publish_many("t", ["a2", "b", "b2", "c"], dedupe_keys=["a", "b", "b", None])
    assert ids[0] == first
    assert ids[1] == ids[2]
    assert len({*ids}) == 3
    assert sorted(mq.payloads("q")) == ["a", "b", "c"]


def test_rolled_back_message_leaves_its_key_free(mq: Caller, connect: Connect) -> None:
    other = connect(autocommit=False)
    other.execute("select penstock.publish_message('t', '\"lost\"', dedupe_key => 'k')")
    other.rollback()
    mq.publish("t", "kept", dedupe_key="k")
    assert mq.payloads("q") == ["kept"]


def test_maintain_forgets_keys_whose_window_is_over(mq: Caller) -> None:
    mq.publish_many("t", [1, 2], dedupe_keys=["a", "b"])
    advance(mq.db, seconds=200)
    mq.publish("t", 3, dedupe_key="c")
    advance(mq.db, seconds=200)
    done = maintain(mq.db)
    assert done["dedupe keys forgotten"] == 2
