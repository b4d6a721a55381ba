"""Housekeeping in steps: each alone, bounded, with its own error, and told by health()."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from tests.fixtures.clock import advance
from tests.fixtures.maintenance import maintain
from tests.sql.refusals import refused

if TYPE_CHECKING:
    from tests.fixtures.databases import Connect
    from tests.sql.caller import Caller

APART = {
    "claims taken back",
    "lanes trimmed",
    "messages lapsed",
    "messages moved",
    "segments dropped",
}


@pytest.fixture(autouse=True)
def queue(mq: Caller) -> None:
    mq("create_queue", "q", "t")


def steps(mq: Caller) -> list[str]:
    return [row.step for row in mq.rows("maintenance_steps")]


def verdict(mq: Caller) -> Any:
    (row,) = mq.query("select * from penstock.health() where name = 'maintenance'")
    return row


def fail_on(mq: Caller, table: str, when: str, condition: str = "true") -> None:
    """Make every change of that kind to a table fail."""
    mq.db.execute(
        f"""
        create function public.refuse() returns trigger language plpgsql as
        $$ begin raise exception 'the disk said no'; end $$;
        create trigger refusal before {when} on penstock_data.{table}
        for each row when ({condition}) execute function public.refuse()
        """.encode()
    )


def mend(mq: Caller, table: str) -> None:
    mq.db.execute(f"drop trigger refusal on penstock_data.{table}".encode())


def test_each_step_can_be_done_alone(mq: Caller) -> None:
    assert len(steps(mq)) == 16
    for step in steps(mq):
        (row,) = mq.rows("maintain_step", step)
        assert (row.step, row.affected, row.more, row.error) == (step, 0, False, None)


def test_an_unknown_step_is_refused(mq: Caller) -> None:
    with refused("PS005", "there is no step 'sweep'"):
        mq.rows("maintain_step", "sweep")


def test_the_procedure_does_every_step(mq: Caller) -> None:
    mq("create_queue", "short", "t", retention=timedelta(minutes=1))
    mq.publish("t", 1)
    mq.consume("q", vt=5)
    advance(mq.db, seconds=61)
    mq.db.execute("call penstock.run_maintenance()")
    assert mq.statistics("q").waiting_count == 1
    assert mq.statistics("short").completed_count == 1


def test_the_procedure_gives_each_queue_a_transaction_of_its_own(mq: Caller) -> None:
    mq("create_queue", "other", "t")
    mq.publish("t", 1)
    for name in ("q", "other"):
        mq.consume(name, vt=5)
    advance(mq.db, seconds=6)
    mq.db.execute("call penstock.run_maintenance()")
    taken_back = mq.query("select distinct xid from penstock_data.scheduled")
    assert len(taken_back) == 2


def test_the_procedure_tells_a_failure_and_goes_on(mq: Caller) -> None:
    warnings: list[str | None] = []
    mq.db.add_notice_handler(lambda said: warnings.append(said.message_primary))
    mq.publish_many("t", [1, 2], dedupe_keys=["a", "b"])
    fail_on(mq, "dedupe_keys", "delete")
    advance(mq.db, seconds=600)
    mq.db.execute("call penstock.run_maintenance()")
    said = "maintenance step dedupe keys forgotten failed: the disk said no"
    assert warnings == [said]


@pytest.mark.parametrize("way", ["steps", "procedure"])
def test_a_step_that_takes_too_long_stops_no_other(mq: Caller, connect: Connect, way: str) -> None:
    mq.publish_many("t", [1, 2], dedupe_keys=["a", "b"])
    mq.consume("q", vt=5)
    mq.db.execute(
        """
        create function public.dawdle() returns trigger language plpgsql as
        $$ begin perform pg_sleep(60); return old; end $$;
        create trigger slowness before delete on penstock_data.dedupe_keys
        for each row execute function public.dawdle()
        """
    )
    advance(mq.db, seconds=600)
    # Long enough for every other step on a busy machine: the whole run, or each step.
    housekeeper = connect(statement_timeout="5s")
    if way == "procedure":
        housekeeper.execute("call penstock.run_maintenance()")
    else:
        for name in steps(mq):
            housekeeper.execute("select * from penstock.maintain_step(%s)", (name,))
    failing = [row.step for row in mq.rows("maintenance_steps") if row.failing_since is not None]
    assert failing == ["dedupe keys forgotten"]
    assert mq.statistics("q").waiting_count == 2


def test_a_caller_who_cancels_ends_the_whole_run(mq: Caller, connect: Connect) -> None:
    mq.publish("t", 1, dedupe_key="a")
    fail_on(mq, "dedupe_keys", "delete")
    mq.db.execute(
        """
        create or replace function public.refuse() returns trigger language plpgsql as
        $$ begin perform pg_cancel_backend(pg_backend_pid()), pg_sleep(60); return old; end $$
        """
    )
    advance(mq.db, seconds=600)
    with pytest.raises(psycopg.errors.QueryCanceled):
        connect().execute("call penstock.run_maintenance()")


def test_the_procedure_is_for_consumers_and_needs_no_more_rights(
    mq: Caller, connect: Connect
) -> None:
    mq.publish("t", 1)
    mq.consume("q", vt=5)
    advance(mq.db, seconds=6)
    connect(role="penstock_consumer").execute("call penstock.run_maintenance()")
    assert mq.statistics("q").waiting_count == 1
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        connect(role="penstock_publisher").execute("call penstock.run_maintenance()")


def test_one_transaction_leaves_out_the_steps_that_others_would_wait_for(mq: Caller) -> None:
    assert {row.step for row in mq.rows("maintain")} == set(steps(mq)) - APART


def test_a_failing_step_stops_no_other_and_is_told_until_it_succeeds(mq: Caller) -> None:
    mq.publish_many("t", [1, 2], dedupe_keys=["a", "b"])
    mq.drain("q")
    mq("configure", "segment_bytes", "1")
    advance(mq.db, seconds=600)
    fail_on(mq, "dedupe_keys", "delete")
    rows = {row.step: row for row in mq.rows("maintain")}
    assert rows["dedupe keys forgotten"].error == "the disk said no"
    assert rows["segments emptied"].affected == 1
    assert [row.step for row in rows.values() if row.error] == ["dedupe keys forgotten"]
    (row,) = mq.rows("maintain_step", "dedupe keys forgotten")
    assert (row.affected, row.more, row.error) == (0, False, "the disk said no")
    failing = [row for row in mq.rows("maintenance_steps") if row.failing_since is not None]
    assert [(row.step, row.failures) for row in failing] == [("dedupe keys forgotten", 2)]
    told = verdict(mq)
    assert not told.ok
    assert told.detail.startswith("'dedupe keys forgotten' fails since ")
    assert told.detail.endswith(", 2 times: the disk said no")
    assert "mend the cause" in told.advice

    mend(mq, "dedupe_keys")
    assert maintain(mq.db)["dedupe keys forgotten"] == 2
    assert verdict(mq).ok


def test_a_queue_that_fails_stops_no_other_queue(mq: Caller) -> None:
    bad = mq("create_queue", "bad", "t")
    for name in ("after", "later"):
        mq("create_queue", name, "t")
    mq.publish("t", 1)
    for name in ("q", "bad", "after", "later"):
        mq.consume(name, vt=5)
    advance(mq.db, seconds=6)
    fail_on(mq, "scheduled", "insert", f"new.queue_id = {bad}")

    def take_back() -> tuple[int, set[str]]:
        count, errors, more = 0, set(), True
        while more:
            (row,) = mq.rows("maintain_step", "claims taken back")
            more = row.more
            count += row.affected
            errors |= {row.error} - {None}
        return count, errors

    assert take_back() == (3, {"queue 'bad': the disk said no"})
    assert not verdict(mq).ok
    assert take_back() == (0, {"queue 'bad': the disk said no"})
    assert "queue 'bad'" in verdict(mq).detail
    mend(mq, "scheduled")
    assert take_back() == (1, set())
    assert verdict(mq).ok


def test_a_failure_is_told_until_a_whole_round_went_well(mq: Caller) -> None:
    """The pieces of the round behind the queue that fails do not take it back."""
    bad = mq("create_queue", "bad", "t")
    mq.publish("t", 1)
    mq.consume("bad", vt=5)
    mq.db.execute(
        "insert into penstock_data.queues (name, topic_id, max_delivery_attempts, ordering, "
        "retry_base, retry_cap, notify) select 'many ' || n, q.topic_id, 3, 'standard', '1s', "
        "'1s', 'waiting' from penstock_data.queues q, generate_series(1, 1100) n "
        "where q.name = 'bad'"
    )
    advance(mq.db, seconds=6)
    fail_on(mq, "scheduled", "insert", f"new.queue_id = {bad}")
    found = [mq.rows("maintain_step", "claims taken back")[0] for _ in range(3)]
    assert [(row.error is None, row.more) for row in found] == [
        (False, True),
        (True, True),
        (True, False),
    ]
    assert not verdict(mq).ok
    mend(mq, "scheduled")
    maintain(mq.db)
    assert verdict(mq).ok


def test_a_lock_that_cannot_be_had_is_a_failure_when_it_lasts(mq: Caller, connect: Connect) -> None:
    holder = connect(autocommit=False)
    holder.execute("lock table penstock_data.dedupe_keys in access exclusive mode")
    (row,) = mq.rows("maintain_step", "dedupe keys forgotten")
    assert "lock timeout" in row.error
    assert verdict(mq).ok
    holder.rollback()
    advance(mq.db, seconds=601)
    holder.execute("lock table penstock_data.dedupe_keys in access exclusive mode")
    mq.rows("maintain_step", "dedupe keys forgotten")
    assert "lock timeout" in verdict(mq).detail
    holder.rollback()
    mq.rows("maintain_step", "dedupe keys forgotten")
    assert verdict(mq).ok


def test_health_tells_when_a_step_has_not_been_done_for_a_day(mq: Caller) -> None:
    maintain(mq.db)
    advance(mq.db, seconds=86_400 + 3_700)
    mq.rows("maintain")
    told = verdict(mq)
    assert not told.ok
    assert {step for step in steps(mq) if f"'{step}' has not been done" in told.detail} == APART
    assert "penstock.run_maintenance()" in told.advice
    mq.db.execute("call penstock.run_maintenance()")
    assert verdict(mq).ok


def test_no_role_can_stop_housekeeping_with_an_advisory_lock(mq: Caller, connect: Connect) -> None:
    stranger = connect(role="penstock_publisher")
    stranger.execute("select pg_advisory_lock(1346719317, 0)")
    assert set(maintain(mq.db)) == set(steps(mq))


def test_a_session_that_holds_the_log_and_does_nothing_is_ended_soon(
    mq: Caller, connect: Connect
) -> None:
    mq("configure", "segment_bytes", "1")
    mq.publish("t", 1)
    mq.drain("q")
    mq.rows("maintain_step", "segments switched")
    setting = "show idle_in_transaction_session_timeout"
    session = connect(autocommit=False, idle_in_transaction_session_timeout="1h")
    session.execute("select penstock.maintain_step('positions trimmed')")
    assert session.execute(setting).fetchone() == ("1h",)
    session.execute("select penstock.maintain_step('segments emptied')")
    assert session.execute(setting).fetchone() == ("5s",)
    session.commit()
    assert session.execute(setting).fetchone() == ("1h",)
    session.rollback()
