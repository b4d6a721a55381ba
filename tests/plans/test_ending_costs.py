"""What it costs to give messages up, in buffers, and to publish a stage, in rows.

Plans are made while the tables are empty, and no table is analysed afterwards: the worst case.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.plans.costs import (
    KINDS,
    assert_no_growth,
    buffers,
    create,
    explained,
    fill,
    only_index_scans,
)

if TYPE_CHECKING:
    import psycopg

    Session = psycopg.Connection[Any]

ENDS = {
    "nack": "select penstock.nack_messages('q', %s, 'plans', 600)",
    "fail": "select penstock.fail_messages('q', %s, 'plans', 600)",
    "release": "select penstock.release_messages('q', %s, 'plans')",
    "bury": "select penstock.bury_message('q', (%s::bigint[])[1], 'plans')",
    "make visible": """
        select penstock_data.set_deadline(q.id, 'plans', %s, 0, '1 day')
        from penstock_data.queues q
    """,
}


def cost(db: Session, statement: str) -> int:
    """Blocks that it takes to give up one message just claimed."""
    row = db.execute("select message_id from penstock.consume_message('q', 'plans', 60)").fetchone()
    assert row is not None
    blocks, rows = explained(db, statement, [row[0]])
    assert rows == 1
    return blocks


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("end", ENDS)
def test_a_plan_of_an_empty_log_does_not_mislead_the_end_of_a_claim(
    db: Session, kind: str, end: str
) -> None:
    create(db, kind)
    db.execute("analyze")
    fill(db, 20, key="n::text")
    before = [cost(db, ENDS[end]) for _ in range(8)][-1]
    fill(db, 50_000, key="n::text")
    assert_no_growth(before, cost(db, ENDS[end]))
    with only_index_scans(db):
        cost(db, ENDS[end])


def rows_read(db: Session, count: int) -> float:
    """How often a staged row is read until it is published and gone."""
    with db.transaction():
        db.execute("select penstock.create_stage()")
        db.execute(
            "insert into penstock_stage (payload) select '{}' from generate_series(1, %s)", (count,)
        )
        db.execute("select penstock.publish_stage('q')")
        row = db.execute(
            """
            select seq_tup_read + coalesce(idx_tup_fetch, 0)
            from pg_stat_xact_user_tables where relname = 'penstock_stage'
            """
        ).fetchone()
    assert row is not None
    return float(row[0]) / count


def test_a_row_of_a_large_stage_is_read_as_often_as_a_row_of_a_small_one(db: Session) -> None:
    create(db)
    small, large = rows_read(db, 10_000), rows_read(db, 160_000)
    assert large <= small
    assert large < 5


ASKED = """
    select penstock_data.has_lapsed(q, penstock_data.clock()) from penstock_data.queues q
    where q.name = 'q'
"""


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("retention", [None, "1 day"])
def test_to_ask_for_lapsed_messages_costs_the_same_however_many_wait(
    db: Session, kind: str, retention: str | None
) -> None:
    create(db, kind)
    db.execute("update penstock_data.queues set retention = %s::interval", (retention,))
    fill(db, 1)  # the first message that the queue has not read
    db.execute("analyze")
    expiry = "array_agg(now() + interval '1 day' + n * interval '1 second')"
    publish = f"""
        select count(p) from (select penstock.publish_messages('q', array_agg('{{}}'::jsonb),
            keys => array_agg((n / 10)::text), priorities => '{{1}}', expires_at => {expiry}) p
        from generate_series(1, %s) n) done
    """
    costs = []
    for count in (3_000, 20_000):
        db.execute(publish.encode(), (count,))
        for _ in range(12):
            db.execute("select * from penstock.consume_messages_batch('q', 'plans', 600, 10)")
        buffers(db, ASKED)  # index entries of claimed messages are marked as dead
        costs.append(buffers(db, ASKED))
    assert_no_growth(*costs, factor=1.5)
    with only_index_scans(db):
        db.execute(ASKED.encode())
