"""What a call costs, in buffers: a figure that does not depend on the machine or its mood."""

from __future__ import annotations

from contextlib import contextmanager
from statistics import median
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    import psycopg

    Session = psycopg.Connection[Any]

# Tables that grow; a call that scans one of them whole has lost its index.
GROWING = "messages_|claims|scheduled|receipts_|positions|lanes|backlog|dedupe_keys|dead_letters"

KINDS = {
    "standard": "",
    "fifo": ", ordering => 'fifo'",
    "fair": ", ordering => 'fair'",
    "filtered": """, filter => '{"payload": {}}'""",
}


def create(db: Session, kind: str = "standard", name: str = "q") -> None:
    """A queue of the topic "q" that never buries anything."""
    db.execute(
        f"select penstock.create_queue('{name}', 'q', max_delivery_attempts => 0 {KINDS[kind]})"
    )


def buffers(conn: Session, statement: str, *given: Any) -> int:
    """Blocks that a statement touched, with everything that it calls."""
    return explained(conn, statement, *given)[0]


def explained(conn: Session, statement: str, *given: Any) -> tuple[int, int]:
    """Blocks that a statement touched, and the rows that it returned."""
    wrapped = f"explain (analyze, buffers, timing off, format json) {statement}"
    row = conn.execute(wrapped.encode(), given).fetchone()
    assert row is not None
    plan = row[0][0]["Plan"]
    return plan["Shared Hit Blocks"] + plan["Shared Read Blocks"], plan["Actual Rows"]


def claim_cost(conn: Session, size: int = 1, *, queue: str = "q", times: int = 9) -> float:
    """The usual cost of a claim that finds something.

    The median, because now and then a claim looks at everything once more, and a table or an index
    gets a new page.
    """
    statement = "select * from penstock.consume_messages_batch(%s, 'plans', 600, %s)"
    costs = []
    for _ in range(times):
        blocks, rows = explained(conn, statement, queue, size)
        assert rows == size
        costs.append(blocks)
    return median(costs)


def ack_cost(conn: Session, *, queue: str = "q", times: int = 9) -> float:
    """The usual cost of an ack of a message just claimed, with a token used for all of them."""
    costs = []
    for _ in range(times):
        row = conn.execute(
            "select message_id from penstock.consume_message(%s, 'plans', 600)", (queue,)
        ).fetchone()
        assert row is not None
        blocks, rows = explained(
            conn, "select penstock.ack_messages(%s, %s, 'plans')", queue, [row[0]]
        )
        assert rows == 1
        costs.append(blocks)
    return median(costs)


def idle_cost(conn: Session, *, queue: str = "q", times: int = 9) -> float:
    """The usual cost of a claim that finds nothing."""
    statement = "select * from penstock.consume_messages_batch(%s, 'plans', 600, 10)"
    costs = []
    for _ in range(times):
        blocks, rows = explained(conn, statement, queue)
        assert rows == 0
        costs.append(blocks)
    return median(costs)


def publish_cost(conn: Session, times: int = 9, topic: str = "q") -> float:
    statement = "select penstock.publish_message(%s, '{}')"
    return median(buffers(conn, statement, topic) for _ in range(times))


@contextmanager
def only_index_scans(conn: Session) -> Iterator[None]:
    """What happens inside reads no growing table from end to end."""
    with conn.transaction():
        before = _scans(conn)
        yield
        after = _scans(conn)
    assert {name for name, count in after.items() if count > before.get(name, 0)} == set()


def _scans(conn: Session) -> dict[str, int]:
    rows = conn.execute(
        """
        select relname, seq_scan from pg_stat_xact_user_tables
        where schemaname = 'penstock_data' and relname ~ %s
        """,
        (f"^({GROWING})",),
    )
    return dict(rows.fetchall())


def assert_no_growth(before: float, after: float, factor: float = 1.2) -> None:
    """A higher tree costs a few more blocks; anything beyond is growth."""
    assert after <= before * factor + 8, f"{before} buffers became {after}"


def fill(conn: Session, count: int, *, key: str = "null", **columns: str) -> None:
    """Put messages into the log of the topic "q" at once; values are SQL over the number `n`."""
    given = {"key": key, "payload": "'{}'::jsonb", **columns}
    conn.execute(
        f"""
        insert into penstock_data.messages (topic_id, segment, {", ".join(given)})
        select t.id, s.message_segment, {", ".join(given.values())}
        from penstock_data.topics t, penstock_data.settings s, generate_series(1, {count}) n
        where t.name = 'q'
        """.encode()
    )


def fill_flagged(conn: Session, count: int, *, key: str, **arrays: str) -> None:
    """Publish messages with a delay or a priority; the engine notes them beside the log."""
    given = {"keys": key, **arrays}
    columns = ", ".join(f"{name} => array_agg({each})" for name, each in given.items())
    conn.execute(
        f"""
        select count(published) from (
            select penstock.publish_messages('q', array_agg('{{}}'::jsonb), {columns}) as published
            from generate_series(1, {count}) n
        ) done
        """.encode()
    )


def scheduled(conn: Session) -> int:
    """How many messages have a place of their own, in the schedule or behind their lane's head."""
    row = conn.execute(
        """
        select (select count(*) from penstock_data.scheduled)
             + (select count(*) from penstock_data.backlog)
        """
    ).fetchone()
    assert row is not None
    return int(row[0])


def repeat(conn: Session, count: int, body: str) -> None:
    """Run statements many times, each time in a transaction of its own."""
    conn.execute(
        f"""
        do $$
        declare
            v_id bigint;
        begin
            for n in 1 .. {count} loop
                {body}
                commit;
            end loop;
        end $$
        """.encode()
    )


CLAIM_AND_ACK = """
    select message_id into v_id from penstock.consume_message('q', 'worker', 600);
    perform penstock.ack_message('q', v_id, 'worker');
"""
CLAIM_AND_NACK = """
    select message_id into v_id from penstock.consume_message('q', 'worker', 600);
    perform penstock.nack_message('q', v_id, 'worker', 0);
"""
CLAIM_AND_RELEASE = """
    select message_id into v_id from penstock.consume_message('q', 'worker', 600);
    perform penstock.release_message('q', v_id, 'worker');
"""
