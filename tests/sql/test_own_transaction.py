"""Publishing and consuming inside the caller's own transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.fixtures.clock import advance
from tests.sql.caller import Caller
from tests.sql.refusals import nothing_changes

if TYPE_CHECKING:
    from tests.fixtures.databases import Connect

ORDERINGS = ["standard", "fifo", "fair"]


@pytest.fixture
def mine(connect: Connect) -> Caller:
    """A session whose transactions end when it says so."""
    return Caller(connect(autocommit=False))


def test_message_appears_when_its_transaction_commits(mq: Caller, mine: Caller) -> None:
    mq("create_queue", "q", "t")
    mine.publish("t", 1)
    assert mq.consume("q") == []
    mine.db.commit()
    assert mq.payloads("q") == [1]


@pytest.mark.parametrize("ordering", ORDERINGS)
def test_rollback_publishes_nothing(mq: Caller, mine: Caller, ordering: str) -> None:
    mq("create_queue", "q", "t", ordering=ordering)
    with nothing_changes(mq.db):
        mine.publish("t", 1, priority=3)
        mine.publish_many("t", [2, 3])
        mine.db.rollback()
    mq.publish("t", 4)
    assert mq.payloads("q") == [4]
    assert mq.statistics("q").total_count == 1


@pytest.mark.parametrize("ordering", ORDERINGS)
@pytest.mark.parametrize("priority", [0, 5])
def test_publish_then_consume_in_one_transaction_loses_nothing(
    mq: Caller, mine: Caller, ordering: str, priority: int
) -> None:
    mq("create_queue", "q", "t", ordering=ordering)
    mine.publish("t", "before", key="a", priority=priority)
    found = mine.payloads("q", vt=600)
    mine.publish("t", "after", key="b", priority=priority)
    found += mine.payloads("q", vt=600)
    mine.db.commit()
    found += mq.payloads("q", vt=600)
    assert sorted(found) == ["after", "before"]


@pytest.mark.parametrize("ordering", ORDERINGS)
@pytest.mark.parametrize("priority", [0, 5])
def test_publish_after_consume_in_one_transaction_loses_nothing(
    mq: Caller, mine: Caller, ordering: str, priority: int
) -> None:
    mq("create_queue", "q", "t", ordering=ordering)
    mq.publish("t", "first", key="a")
    found = mine.payloads("q", vt=600)
    mine.publish("t", "second", key="b", priority=priority)
    mine.db.commit()
    found += mq.payloads("q", vt=600)
    assert found == ["first", "second"]


@pytest.mark.parametrize("ordering", ORDERINGS)
@pytest.mark.parametrize("priority", [0, 5])
def test_consuming_transaction_with_an_old_id_does_not_pass_over_what_it_publishes_later(
    mq: Caller, mine: Caller, ordering: str, priority: int
) -> None:
    # Its snapshot counts its own id as finished once a younger transaction has ended.
    mq("create_queue", "q", "t", ordering=ordering)
    mine.publish("t", "mine, before", key="a", priority=priority)
    mq.publish("t", "theirs", key="b")
    found = mine.payloads("q", vt=600)
    mine.publish("t", "mine, after", key="c", priority=priority)
    mine.db.commit()
    while more := mq.payloads("q", vt=600):
        found += more
    assert sorted(found) == ["mine, after", "mine, before", "theirs"]


@pytest.mark.parametrize("ordering", ORDERINGS)
def test_queue_created_in_a_transaction_with_an_old_id_gets_what_follows(
    mq: Caller, mine: Caller, ordering: str
) -> None:
    mq("create_topic", "t")
    mine.publish("t", "before")
    mq.publish("t", "theirs")
    mine("create_queue", "q", "t", ordering=ordering)
    mine("create_reader", "r", "t")
    mine.publish("t", "after")
    mine.db.commit()
    assert "after" in mq.drain("q")
    assert "after" in [row.payload for row in mq.rows("read_window", "r")]


@pytest.mark.parametrize("ordering", ORDERINGS)
def test_claim_that_was_rolled_back_is_given_again_as_if_never_made(
    mq: Caller, mine: Caller, ordering: str
) -> None:
    mq("create_queue", "q", "t", ordering=ordering)
    message_id = mq.publish("t", 1)
    with nothing_changes(mq.db):
        assert len(mine.consume("q")) == 1
        mine.db.rollback()
    assert not mq.ack("q", message_id)
    assert [r.delivery_attempts for r in mq.consume("q")] == [1]


def test_effects_and_ack_commit_together_or_not_at_all(mq: Caller, mine: Caller) -> None:
    mq("create_queue", "q", "t")
    mq.db.execute("create table ledger (entry int)")
    message_id = mq.publish("t", 1)
    mq.consume("q")
    mine.db.execute("insert into ledger values (1)")
    assert mine.ack("q", message_id)
    mine.db.rollback()
    assert mq.state("q", message_id) == "claimed"
    mine.db.execute("insert into ledger values (1)")
    assert mine.ack("q", message_id)
    mine.db.commit()
    assert mq.state("q", message_id) == "done"
    assert mq.value("select count(*) from ledger") == 1


def test_consume_ack_and_publish_the_next_in_one_transaction(mq: Caller, mine: Caller) -> None:
    mq("create_queue", "q", "t")
    mq("create_queue", "next", "u")
    mq.publish("t", "order")
    (row,) = mine.consume("q")
    mine.publish("u", "invoice")
    assert mine.ack("q", row.message_id)
    mine.db.commit()
    assert mq.payloads("next") == ["invoice"]
    assert mq.statistics("q").completed_count == 1


@pytest.mark.parametrize("ending", ["nack_message", "release_message", "bury_message"])
def test_ending_that_was_rolled_back_leaves_the_claim(
    mq: Caller, mine: Caller, ending: str
) -> None:
    mq("create_queue", "q", "t")
    message_id = mq.publish("t", 1)
    mq.consume("q")
    with nothing_changes(mq.db):
        assert mine(ending, "q", message_id, "me") is True
        mine.db.rollback()
    assert mq.ack("q", message_id)


@pytest.mark.parametrize("ordering", ORDERINGS)
def test_queue_created_in_the_publishers_transaction_gets_what_follows(
    mq: Caller, mine: Caller, ordering: str
) -> None:
    mq("create_topic", "t")
    mine("create_queue", "q", "t", ordering=ordering)
    mine.publish("t", 1, key="a")
    mine.publish("t", 2, key="b", priority=1)
    mine.db.commit()
    assert sorted(mq.payloads("q")) == [1, 2]


def test_savepoint_rolled_back_publishes_nothing_and_the_rest_goes_out(
    mq: Caller, mine: Caller
) -> None:
    mq("create_queue", "q", "t")
    mine.publish("t", 1)
    mine.db.execute("savepoint s")
    mine.publish("t", 2)
    mine.db.execute("rollback to s")
    mine.publish("t", 3)
    mine.db.commit()
    assert mq.payloads("q") == [1, 3]


def test_clock_does_not_stand_still_inside_a_transaction(mq: Caller, mine: Caller) -> None:
    mq("create_queue", "q", "t")
    mine.value("select now()")
    message_id = mq.publish("t", 1)
    mq.consume("q", vt=10)
    advance(mq.db, seconds=11)
    assert mine.ack("q", message_id) is False


@pytest.mark.parametrize("ordering", ORDERINGS)
@pytest.mark.parametrize("priority", [0, 5])
def test_purge_counts_what_it_drops_and_leaves_what_its_own_transaction_publishes(
    mq: Caller, mine: Caller, ordering: str, priority: int
) -> None:
    mq("create_queue", "q", "t", ordering=ordering)
    mq.publish_many("t", [1, 2], keys=["a", "b"])
    mine.publish("t", 3, key="c", priority=priority)
    assert mine("purge_queue", "q") == 2
    mine.publish("t", 4, key="d", priority=priority)
    mine.db.commit()
    assert mq.payloads("q") == [3, 4]
