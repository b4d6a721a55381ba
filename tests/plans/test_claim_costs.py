"""The cost of a claim, in buffers, does not grow with what lies around it."""

from __future__ import annotations

import time
from statistics import median
from typing import TYPE_CHECKING, Any

import pytest

from tests.fixtures import clock
from tests.fixtures.maintenance import maintain
from tests.plans.costs import (
    CLAIM_AND_ACK,
    CLAIM_AND_NACK,
    CLAIM_AND_RELEASE,
    KINDS,
    ack_cost,
    assert_no_growth,
    buffers,
    claim_cost,
    create,
    explained,
    fill,
    fill_flagged,
    idle_cost,
    only_index_scans,
    publish_cost,
    repeat,
    scheduled,
)

if TYPE_CHECKING:
    import psycopg

    from tests.fixtures.databases import Connect

    Session = psycopg.Connection[Any]

TURNS = "(n % 500)::text"
LOOPS = {"ack": CLAIM_AND_ACK, "nack": CLAIM_AND_NACK, "release": CLAIM_AND_RELEASE}


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest, db: Session) -> str:
    create(db, request.param)
    return str(request.param)


def settle(db: Session, times: int = 3) -> None:
    """The first claims bring the log into the schedule of a queue with an ordering."""
    claim_cost(db, times=times)


def test_a_backlog_of_a_million_costs_a_claim_nothing(db: Session) -> None:
    create(db)
    fill(db, 30)
    settle(db)
    one, ten = claim_cost(db), claim_cost(db, 10, times=1)
    fill(db, 100_000)
    assert_no_growth(one, claim_cost(db))
    fill(db, 900_000)
    assert_no_growth(one, claim_cost(db))
    assert_no_growth(ten, claim_cost(db, 10))
    hundred = claim_cost(db, 100, times=3)
    assert hundred < 10 * ten
    with only_index_scans(db):
        db.execute("select * from penstock.consume_messages_batch('q', 'plans', 600, 1000)")
    db.execute("analyze")
    assert_no_growth(one, claim_cost(db))
    with only_index_scans(db):
        db.execute("select * from penstock.consume_messages_batch('q', 'plans', 600, 10000)")


def test_a_backlog_costs_a_claim_of_an_ordering_nothing(db: Session, kind: str) -> None:
    """A fair queue reads a portion of the log ahead at each claim, so it is measured after that."""
    fill(db, 100, key=TURNS)
    settle(db)
    few = claim_cost(db)
    fill(db, 20_000, key=TURNS)
    settle(db, 25)
    assert_no_growth(few, claim_cost(db))
    with only_index_scans(db):
        db.execute("select * from penstock.consume_messages_batch('q', 'plans', 600, 10)")


def test_statistics_of_an_empty_table_do_not_mislead(db: Session, kind: str) -> None:
    db.execute("analyze")
    fill(db, 60, key=TURNS)
    settle(db)
    few = claim_cost(db)
    fill(db, 30_000, key=TURNS)
    settle(db, 35)
    assert_no_growth(few, claim_cost(db))
    for size in (1, 7, 100):
        with only_index_scans(db):
            statement = "select * from penstock.consume_messages_batch('q', 'plans', 600, %s)"
            assert len(db.execute(statement, (size,)).fetchall()) == size


def test_statistics_of_a_full_table_do_not_mislead_after_a_mass_delete(
    db: Session, connect: Connect, kind: str
) -> None:
    fill(db, 60, key=TURNS)
    settle(db)
    few = claim_cost(db)
    fill(db, 20_000, key="n::text")
    settle(db, 25)
    db.execute("analyze")
    db.execute("select penstock.purge_queue('q')")
    db.execute("delete from penstock_data.messages")
    db.execute("vacuum")
    fresh = connect()
    fill(db, 50, key=TURNS)
    settle(fresh)
    assert_no_growth(few, claim_cost(fresh))
    with only_index_scans(fresh):
        statement = "select * from penstock.consume_messages_batch('q', 'plans', 600, 7)"
        assert len(fresh.execute(statement).fetchall()) == 7


@pytest.mark.parametrize("mode", ["auto", "force_generic_plan", "force_custom_plan"])
def test_the_sixth_execution_costs_what_the_first_one_did(
    db: Session, connect: Connect, kind: str, mode: str
) -> None:
    fill(db, 5_000, key="n::text")
    session = connect(plan_cache_mode=mode)
    statement = "select * from penstock.consume_messages_batch('q', 'plans', 600, 3)"
    settle(session, 8)
    costs = [explained(session, statement) for _ in range(12)]
    assert {rows for _, rows in costs} == {3}
    early = sorted(blocks for blocks, _ in costs[:5])[2]
    late = sorted(blocks for blocks, _ in costs[6:])[2]
    assert_no_growth(early, late, 1.3)


@pytest.mark.parametrize("loop", LOOPS)
def test_dead_rows_under_a_held_snapshot_are_not_in_the_way(
    db: Session, connect: Connect, kind: str, loop: str
) -> None:
    body = LOOPS[loop]
    fill(db, 2_000, key=TURNS)
    settle(db)
    reader = connect(isolation="repeatable read", autocommit=False)
    reader.execute("select 1")
    repeat(db, 50, body)
    clock.advance(db, 2)
    start = claim_cost(db, times=15)
    repeat(db, 1_500, body)
    clock.advance(db, 2)
    claim_cost(db, times=2)
    assert_no_growth(start, claim_cost(db, times=15))
    reader.rollback()


def test_dead_rows_under_a_held_snapshot_are_not_in_the_way_of_an_ack(
    db: Session, connect: Connect
) -> None:
    create(db)
    fill(db, 2_000)
    reader = connect(isolation="repeatable read", autocommit=False)
    reader.execute("select 1")
    repeat(db, 20, CLAIM_AND_ACK)
    start = ack_cost(db)
    repeat(db, 1_500, CLAIM_AND_ACK)
    assert ack_cost(db) <= start + 3  # a leaf of the index holds hundreds of dead claims
    reader.rollback()


@pytest.mark.parametrize("loop", ["ack", "release"])
def test_dead_rows_under_a_held_snapshot_are_not_in_the_way_of_an_idle_claim(
    db: Session, connect: Connect, loop: str
) -> None:
    create(db)
    fill(db, 20)
    reader = connect(isolation="repeatable read", autocommit=False)
    reader.execute("select 1")
    repeat(db, 20, CLAIM_AND_ACK)
    start = idle_cost(db)
    fill(db, 1_000)
    repeat(db, 1_000, LOOPS[loop])
    db.execute("select penstock.consume_messages_batch('q', 'plans', 6000, 1000)")
    clock.advance(db, 2)
    idle_cost(db, times=2)
    assert_no_growth(start, idle_cost(db))
    reader.rollback()


# A claim that waited cuts a slice of four if the last cut is long ago; three more take the rest.
LONG_AGO = """
    update penstock_data.positions set sliced_at = sliced_at - interval '1 hour'
    where seq = (select max(seq) from penstock_data.positions)
"""
SHARE = "select * from penstock_data.claim_and_share('q', 'plans', 600, 1, null, true)"
BESIDE = "select * from penstock.consume_message('q', 'plans', 600)"
ASKED = "select penstock_data.has_slices(id) from penstock_data.queues where name = 'q'"
CUT_AND_ACK = f"""
    {LONG_AGO};
    for v_id in {SHARE.replace("*", "message_id")} loop
        perform penstock.ack_message('q', v_id, 'plans');
    end loop;
    for n in 1 .. 3 loop
        {BESIDE.replace("*", "message_id into v_id")};
        perform penstock.ack_message('q', v_id, 'plans');
        commit;
    end loop;
"""


def test_dead_slices_under_a_held_snapshot_are_not_in_the_way(
    db: Session, connect: Connect, kind: str
) -> None:
    def costs() -> dict[str, float]:
        found: dict[str, list[int]] = {SHARE: [], BESIDE: [], ASKED: []}
        for _ in range(9):
            db.execute(LONG_AGO)
            for statement in (SHARE, BESIDE, ASKED, BESIDE, BESIDE):
                blocks, rows = explained(db, statement)
                assert rows == 1, statement
                found[statement].append(blocks)
        return {statement: median(each) for statement, each in found.items()}

    # As consume_message() sets them, from which the cut is called.
    for setting in ("enable_seqscan = off", "enable_sort = off", "jit = off"):
        db.execute(f"set {setting}".encode())
    fill(db, 4_000, key="n::text")
    reader = connect(isolation="repeatable read", autocommit=False)
    reader.execute("select 1")
    repeat(db, 10, CUT_AND_ACK)
    start = costs()
    repeat(db, 700, CUT_AND_ACK)
    end = costs()
    for statement in (SHARE, BESIDE, ASKED):
        assert end[statement] <= 1.2 * start[statement] + 2, statement
    reader.rollback()


def test_the_presence_of_claims_ahead_is_not_renewed_often(db: Session) -> None:
    """While a snapshot is held, each look at a row walks over all versions of it."""

    def updates() -> int:
        db.execute("select pg_stat_force_next_flush()")
        db.execute("select pg_stat_clear_snapshot()")
        row = db.execute(
            "select n_tup_upd from pg_stat_user_tables where relname = 'message_locks'"
        ).fetchone()
        assert row is not None
        return int(row[0])

    create(db)
    before = updates()
    begun = time.monotonic()
    repeat(
        db,
        100,
        """
        perform penstock_data.may_claim_ahead('q');
        commit;
        perform penstock_data.renew_presence(id) from penstock_data.queues where name = 'q';
        """,
    )
    assert 1 <= updates() - before <= 2 + (time.monotonic() - begun)


def test_the_number_of_queues_costs_neither_claims_nor_publishers(db: Session) -> None:
    create(db)
    fill(db, 100)
    settle(db)
    claiming, publishing = claim_cost(db), publish_cost(db)
    for number in range(49):
        create(db, list(KINDS)[number % 4], f"queue-{number}")
    assert_no_growth(claiming, claim_cost(db), 1.0)
    assert publish_cost(db) <= publishing + 1
    many = "select penstock.publish_messages('q', array_fill('{}'::jsonb, array[100]))"
    assert buffers(db, many) < 100 * publishing


@pytest.mark.parametrize("kind", ["fifo", "fair"])
def test_the_number_of_keys_costs_a_claim_nothing(db: Session, kind: str) -> None:
    create(db, kind)
    fill(db, 60, key="(n % 10)::text")
    claim_cost(db, times=2)
    few = claim_cost(db, times=5)
    fill(db, 12_000, key="'key-' || n % 10000")
    claim_cost(db, times=15)
    db.execute("select * from penstock.consume_messages_batch('q', 'plans', 600, 10000)")
    clock.advance(db, 2)
    fill(db, 60, key="'new-' || n")
    settle(db)
    assert_no_growth(few, claim_cost(db))
    with only_index_scans(db):
        db.execute("select * from penstock.consume_messages_batch('q', 'plans', 600, 5)")


def test_messages_scheduled_for_later_cost_a_claim_nothing(db: Session, kind: str) -> None:
    fill(db, 60, key="n::text")
    settle(db)
    few = claim_cost(db)
    tomorrow = "clock_timestamp() + interval '1 day'"
    fill_flagged(db, 100_000, key="'later-' || n", deliver_after=tomorrow)
    for _ in range(12):  # each claim schedules a portion of them
        db.execute("select * from penstock.consume_messages_batch('q', 'plans', 600, 1000)")
    assert scheduled(db) == 100_000
    clock.advance(db, 2)
    fill(db, 30, key="'now-' || n")
    settle(db)
    assert_no_growth(few, claim_cost(db))


def test_open_claims_cost_a_claim_nothing(db: Session, kind: str) -> None:
    fill(db, 30, key="n::text")
    settle(db)
    few = claim_cost(db)
    db.execute(
        """
        insert into penstock_data.claims
            (queue_id, first_id, deadline, claimed_at, token, message_ids)
        select q.id, -n, penstock_data.clock() + interval '1 hour', penstock_data.clock(),
            'worker-' || n % 100, array[-n]
        from penstock_data.queues q, generate_series(1, 10000) n
        """
    )
    assert_no_growth(few, claim_cost(db))
    with only_index_scans(db):
        db.execute("select * from penstock.consume_messages_batch('q', 'plans', 600, 5)")


def test_open_claims_cost_an_ack_nothing(db: Session) -> None:
    create(db)
    fill(db, 2_020)
    ids = [
        row[0]
        for _ in range(10)
        for row in db.execute("select message_id from penstock.consume_message('q', 'w', 600)")
    ]
    ack = "select penstock.ack_message('q', %s, 'w')"
    few = buffers(db, ack, ids[4])
    repeat(db, 2_000, "perform penstock.consume_message('q', 'w', 600);")
    assert_no_growth(few, buffers(db, ack, ids[5]))
    with only_index_scans(db):
        db.execute(ack, (ids[6],))


def test_retries_due_at_one_moment_are_not_in_each_others_way(
    db: Session, connect: Connect, kind: str
) -> None:
    fill(db, 1_600, key="n::text")
    reader = connect(isolation="repeatable read", autocommit=False)
    reader.execute("select 1")
    db.execute(
        """
        select count(given_back) from (
            select penstock.nack_messages('q', array_agg(m.message_id), 'plans', 5) as given_back
            from penstock.consume_messages_batch('q', 'plans', 600, 1500) m
        ) done
        """
    )
    clock.advance(db, 6)
    settle(db)
    few = claim_cost(db)
    repeat(db, 1_400, CLAIM_AND_ACK)
    assert_no_growth(few, claim_cost(db))
    reader.rollback()


@pytest.mark.parametrize("loop", ["nack", "release"])
def test_messages_given_back_behind_a_writer_that_stays_open_are_not_in_the_way(
    db: Session, connect: Connect, kind: str, loop: str
) -> None:
    writer = connect(autocommit=False)
    writer.execute("select penstock.publish_message('q', '{}')")
    fill(db, 200, key="n::text")
    settle(db)
    repeat(db, 50, LOOPS[loop])
    few = claim_cost(db)
    repeat(db, 1_000, LOOPS[loop])
    assert_no_growth(few, claim_cost(db))
    writer.rollback()


def test_a_writer_that_stays_open_costs_a_claim_nothing(
    db: Session, connect: Connect, kind: str
) -> None:
    writer = connect(autocommit=False)
    writer.execute("select penstock.publish_message('q', '{}')")
    fill(db, 60, key="n::text")
    settle(db)
    few = claim_cost(db)
    publish = "perform penstock.publish_message('q', '{}', key => 'k' || n);"
    repeat(db, 1_500, publish + CLAIM_AND_ACK)
    clock.advance(db, 2)
    settle(db)
    assert_no_growth(few, claim_cost(db))
    writer.rollback()


def test_receipts_that_free_no_lane_are_not_read_again_and_again(db: Session) -> None:
    create(db, "fifo")
    fill(db, 100, key="n::text")
    settle(db)
    few = claim_cost(db)
    repeat(db, 1_500, CLAIM_AND_RELEASE)
    clock.advance(db, 2)
    settle(db)
    assert_no_growth(few, claim_cost(db))


def test_priorities_once_used_do_not_burden_claims_for_ever(db: Session) -> None:
    create(db)
    fill(db, 50)
    settle(db)
    few = claim_cost(db)
    fill_flagged(db, 300, key="null::text", priorities="n")
    urgent = "select * from penstock.consume_messages_batch('q', 'urgent', 600, 300)"
    claimed = db.execute(f"select priority, message_id from ({urgent}) urgent".encode()).fetchall()
    assert [row[0] for row in claimed] == list(range(300, 0, -1))
    ids = [row[1] for row in claimed]
    db.execute("select penstock.ack_messages('q', %s, 'urgent')", (ids,))
    clock.advance(db, 2)
    settle(db)
    maintain(db)
    assert_no_growth(few, claim_cost(db))
