"""Roles: what each may and may not, nothing for PUBLIC, and grants that narrow."""

from __future__ import annotations

from secrets import token_hex
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from tests.sql.caller import Caller
from tests.sql.refusals import nothing_changes, refused

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.fixtures.cluster import Server
    from tests.fixtures.databases import Connect

ROLES = ["penstock_publisher", "penstock_consumer", "penstock_monitor", "penstock_admin"]

EVERYBODY = {"clock", "schema_version", "schema_fingerprint", "schema_revision", "error_codes"}
PUBLISHER = {
    "publish_message",
    "publish_messages",
    "create_stage",
    "publish_stage",
    "open_part",
    "publish_part",
    "commit_write",
    "abort_write",
    "is_written",
    "check_publishing",
    "import_progress",
    "note_import",
}
CONSUMER = {
    "consume_message",
    "consume_messages_batch",
    "ack_message",
    "ack_messages",
    "ack_and_consume",
    "ack_and_consume_batch",
    "nack_message",
    "nack_messages",
    "fail_messages",
    "bury_message",
    "release_message",
    "release_messages",
    "extend_message_vt",
    "batch_extend_message_vt",
    "extend_queue_keep_alive",
    "get_next_visible_time",
    "message_state",
    "browse_messages",
    "find_messages",
    "inspect_message",
    "suspect_messages",
    "defer_suspects",
    "begin_attempt",
    "start_waiting",
    "queue_channel",
    "read_window",
    "commit_window",
    "maintain",
    "maintain_step",
    "maintenance_steps",
    "run_maintenance",
    "readable_topics",
    "readable_queues",
    "log_offset",
    "next_offset",
    "split_log",
    "next_receipts",
    "split_receipts",
    "check_kept",
    "open_stream",
    "commit_stream",
    "safe_offset",
    "wait_for_log",
}
MONITOR = {
    "list_topics",
    "list_queues",
    "list_readers",
    "list_streams",
    "queue_contents",
    "get_queue_statistics",
    "message_state",
    "health",
    "configuration",
    "get_next_visible_time",
    "queue_overview",
    "activity",
    "queue_history",
    "list_consumers",
    "reader_overview",
    "segment_overview",
    "horizon_holders",
    "list_schedules",
    "list_actions",
    "maintenance_steps",
}
# These run with the caller's rights, or compute nothing from tables.
INVOKERS = {
    "create_stage",
    "publish_stage",
    "run_maintenance",
    "schema_version",
    "schema_fingerprint",
    "schema_revision",
}


@pytest.fixture
def stranger(mq: Caller, server: Server) -> Iterator[str]:
    """A role that belongs to no other."""
    name = f"penstock_stranger_{token_hex(4)}"
    mq.db.execute(f"create role {name} login".encode())
    yield name
    mq.db.execute(f"drop owned by {name}".encode())
    mq.db.execute(f"drop role {name}".encode())


@pytest.fixture
def shop(mq: Caller) -> Caller:
    """A topic and a queue with one message waiting and one dead."""
    mq("create_queue", "q", "t")
    message_id = mq.publish("t", {"secret": 1})
    mq.consume("q")
    mq("bury_message", "q", message_id, "me")
    mq.publish("t", {"secret": 2})
    return mq


def functions_of(mq: Caller, role: str) -> set[str]:
    return {
        row.proname
        for row in mq.query(
            "select p.proname from pg_proc p where p.pronamespace = 'penstock'::regnamespace "
            "and has_function_privilege(%s, p.oid, 'execute')",
            role,
        )
    }


def test_nothing_is_open_to_public(mq: Caller, stranger: str) -> None:
    assert functions_of(mq, stranger) == set()
    open_functions = mq.query(
        "select p.oid::regprocedure from pg_proc p where p.pronamespace = any (array["
        "'penstock'::regnamespace, 'penstock_data'::regnamespace]) "
        "and has_function_privilege(%s, p.oid, 'execute')",
        stranger,
    )
    assert open_functions == []
    open_tables = mq.query(
        "select c.oid::regclass from pg_class c where c.relnamespace = any (array["
        "'penstock'::regnamespace, 'penstock_data'::regnamespace]) "
        "and c.relkind in ('r', 'p', 'v') "
        "and has_table_privilege(%s, c.oid, 'select, insert, update, delete, truncate')",
        stranger,
    )
    assert open_tables == []
    for schema in ("penstock", "penstock_data"):
        assert not mq.value("select has_schema_privilege(%s, %s, 'usage')", stranger, schema)


def test_stranger_can_call_nothing(mq: Caller, stranger: str, connect: Connect) -> None:
    session = connect(user=stranger)
    with refused("42501"):
        session.execute("select penstock.publish_message('t', '1')")


@pytest.mark.parametrize("role", ROLES)
def test_nobody_is_granted_the_tables(mq: Caller, role: str) -> None:
    found = mq.query(
        "select c.oid::regclass from pg_class c "
        "where c.relnamespace = 'penstock_data'::regnamespace and c.relkind in ('r', 'p') "
        "and has_table_privilege(%s, c.oid, 'select, insert, update, delete, truncate')",
        role,
    )
    assert found == []
    assert not mq.value("select has_schema_privilege(%s, 'penstock_data', 'usage')", role)
    assert not mq.value("select has_schema_privilege(%s, 'penstock', 'create')", role)


@pytest.mark.parametrize(
    ("role", "expected"),
    [
        ("penstock_publisher", PUBLISHER),
        ("penstock_consumer", CONSUMER),
        ("penstock_monitor", MONITOR),
    ],
)
def test_role_may_call_just_its_functions(mq: Caller, role: str, expected: set[str]) -> None:
    assert functions_of(mq, role) == expected | EVERYBODY


def test_admin_may_call_every_function(mq: Caller) -> None:
    every = {
        row.proname
        for row in mq.query(
            "select proname from pg_proc where pronamespace = 'penstock'::regnamespace"
        )
    }
    assert functions_of(mq, "penstock_admin") == every


def test_publisher_and_consumer_are_siblings(mq: Caller) -> None:
    memberships = mq.query(
        "select m.roleid::regrole, m.member::regrole from pg_auth_members m "
        "where m.roleid::regrole::text like 'penstock_%%' and m.member::regrole::text = any (%s)",
        ROLES,
    )
    assert memberships == []
    assert not PUBLISHER & CONSUMER


def test_roles_cannot_log_in(mq: Caller) -> None:
    assert mq.value("select count(*) from pg_roles where rolname = any (%s)", ROLES) == 4
    able = mq.query("select rolname from pg_roles where rolname = any (%s) and rolcanlogin", ROLES)
    assert able == []


def test_functions_are_security_definer_with_a_pinned_search_path(mq: Caller) -> None:
    rows = mq.query(
        "select p.proname, p.prosecdef, "
        "(select c from unnest(p.proconfig) c where c like 'search_path=%%') as path "
        "from pg_proc p where p.pronamespace = 'penstock'::regnamespace and %s",
        True,
    )
    assert len(rows) > 40
    for row in rows:
        if row.proname in INVOKERS:
            assert not row.prosecdef, row
        else:
            assert row.prosecdef, row
            assert row.path is not None, row
            assert row.path.endswith("pg_temp"), row
            assert "public" not in row.path, row


def test_security_definer_functions_inside_are_pinned_too(mq: Caller) -> None:
    rows = mq.query(
        "select p.proname, p.proconfig from pg_proc p "
        "where p.pronamespace = 'penstock_data'::regnamespace and p.prosecdef"
    )
    for row in rows:
        assert any(c.startswith("search_path=") and c.endswith("pg_temp") for c in row.proconfig)


def test_every_public_function_and_view_explains_itself(mq: Caller) -> None:
    silent = mq.query(
        "select p.oid::regprocedure::text from pg_proc p "
        "where p.pronamespace = 'penstock'::regnamespace "
        "and obj_description(p.oid, 'pg_proc') is null "
        "union all select c.oid::regclass::text from pg_class c "
        "where c.relnamespace = 'penstock'::regnamespace and c.relkind = 'v' "
        "and obj_description(c.oid, 'pg_class') is null"
    )
    assert silent == []


def test_publisher_publishes_and_does_nothing_else(shop: Caller, connect: Connect) -> None:
    me = Caller(connect(role="penstock_publisher"))
    assert me.publish("t", 1) > 0
    assert len(me.publish_many("t", [1, 2])) == 2
    assert me("schema_version") >= 1
    with nothing_changes(shop.db):
        for statement in (
            "select * from penstock.consume_message('q', 'me')",
            "select penstock.create_topic('x')",
            "select penstock.delete_topic('t')",
            "select * from penstock.browse_messages('q')",
            "select * from penstock.messages",
            "select * from penstock.queues",
            "select * from penstock_data.messages",
            "select penstock.configure('segment_bytes', '1')",
            "select penstock.advance_clock('1 day')",
        ):
            with refused("42501"):
                me.db.execute(statement.encode())


def test_consumer_consumes_and_does_nothing_else(shop: Caller, connect: Connect) -> None:
    me = Caller(connect(role="penstock_consumer"))
    (row,) = me.consume("q")
    assert me("extend_message_vt", "q", row.message_id, "me", 10) is not None
    assert me("release_message", "q", row.message_id, "me")
    assert me.nack("q", me.consume("q")[0].message_id, delay_seconds=0)
    assert me.ack("q", me.consume("q")[0].message_id)
    assert me("start_waiting", "q") == "queue:q"
    assert me.rows("maintain") != []
    with nothing_changes(shop.db):
        for statement in (
            "select penstock.publish_message('t', '1')",
            "select penstock.create_queue('x')",
            "select penstock.delete_queue('q')",
            "select penstock.purge_queue('q')",
            "select penstock.purge_dlq()",
            "select penstock.requeue_dlq_messages('q')",
            "select * from penstock.list_dlq_messages()",
            "select * from penstock.messages",
            "select * from penstock_data.claims",
            "select penstock.rebase()",
        ):
            with refused("42501"):
                me.db.execute(statement.encode())


def test_monitor_sees_counts_and_never_payloads(shop: Caller, connect: Connect) -> None:
    me = Caller(connect(role="penstock_monitor"))
    assert me.statistics("q").dead_count == 1
    assert me.value("select count(*) from penstock.queue_messages") == 1
    assert [t.name for t in me.rows("list_topics")] == ["t"]
    assert [q.name for q in me.query("select * from penstock.queues")] == ["q"]
    assert me.rows("health") != []
    with nothing_changes(shop.db):
        for statement in (
            "select * from penstock.messages",
            "select * from penstock.dead_letter_queue",
            "select * from penstock.list_dlq_messages()",
            "select * from penstock.browse_messages('q')",
            "select * from penstock.read_window('r')",
            "select * from penstock.consume_message('q', 'me')",
            "delete from penstock.queue_messages",
            "select penstock.maintain()",
        ):
            with refused("42501"):
                me.db.execute(statement.encode())
    readable = me.query(
        "select a.attname from pg_attribute a join pg_class c on c.oid = a.attrelid "
        "where c.relnamespace = 'penstock'::regnamespace and a.attname in ('payload', 'headers') "
        "and has_column_privilege('penstock_monitor', c.oid, a.attnum, 'select')"
    )
    assert readable == []


def test_admin_runs_the_whole_thing(shop: Caller, connect: Connect) -> None:
    me = Caller(connect(role="penstock_admin"))
    me("create_topic", "x")
    me("create_queue", "y", "x")
    me.publish("x", 1)
    assert me.drain("y") == [1]
    assert me.db.execute("delete from penstock.queue_messages where status = 'completed'").rowcount
    assert me("requeue_dlq_messages", "q") == 1
    me("purge_queue", "q")
    me.rows("maintain")
    me("delete_topic", "x")
    assert me.query("select * from penstock.dead_letter_queue") == []


@pytest.fixture
def staff(mq: Caller) -> Iterator[tuple[str, str]]:
    """Two login roles that may publish and consume."""
    names = (f"penstock_anna_{token_hex(4)}", f"penstock_bert_{token_hex(4)}")
    for name in names:
        mq.db.execute(
            f"create role {name} login in role penstock_publisher, penstock_consumer".encode()
        )
    yield names
    for name in names:
        mq.db.execute(f"drop role {name}".encode())


def test_granted_topic_takes_messages_only_from_those_it_was_granted_to(
    shop: Caller, connect: Connect, staff: tuple[str, str]
) -> None:
    anna, bert = (Caller(connect(user=name)) for name in staff)
    shop("grant_topic", "t", staff[0])
    assert anna.publish("t", 1)
    with nothing_changes(shop.db), refused("PS009", staff[1], "'t'"):
        bert.publish("t", 1)
    with nothing_changes(shop.db), refused("PS009", staff[1], "'t'"):
        bert.publish_many("t", [1])
    shop("grant_topic", "t", staff[1])
    assert bert.publish("t", 1)
    shop("revoke_topic", "t", staff[0])
    with refused("PS009"):
        anna.publish("t", 1)
    shop("revoke_topic", "t", staff[1])
    with refused("PS009"):
        bert.publish("t", 1)
    shop("grant_topic", "t", "public")
    assert anna.publish("t", 1)


def test_grant_to_a_group_is_for_its_members(
    shop: Caller, connect: Connect, staff: tuple[str, str]
) -> None:
    shop.db.execute("create role penstock_team")
    shop.db.execute(f"grant penstock_team to {staff[0]}".encode())
    try:
        shop("grant_topic", "t", "penstock_team")
        assert Caller(connect(user=staff[0])).publish("t", 1)
        with refused("PS009"):
            Caller(connect(user=staff[1])).publish("t", 1)
    finally:
        shop.db.execute("drop role penstock_team")


CONSUMING: list[tuple[Any, ...]] = [
    ("consume_message", "q", "me"),
    ("consume_messages_batch", "q", "me", 30, 10),
    ("ack_message", "q", 1, "me"),
    ("ack_messages", "q", [1], "me"),
    ("nack_message", "q", 1, "me"),
    ("nack_messages", "q", [1], "me"),
    ("fail_messages", "q", [1], "me"),
    ("bury_message", "q", 1, "me"),
    ("release_message", "q", 1, "me"),
    ("release_messages", "q", [1], "me"),
    ("extend_message_vt", "q", 1, "me", 5),
    ("batch_extend_message_vt", "q", [1], "me", 5),
    ("browse_messages", "q"),
    ("message_state", "q", 1),
    ("get_next_visible_time", "q"),
    ("suspect_messages", "q", "me"),
    ("defer_suspects", "q", "me"),
    ("begin_attempt", "q", 1, "me"),
    ("start_waiting", "q"),
]


def test_granted_queue_is_only_for_those_it_was_granted_to(
    shop: Caller, connect: Connect, staff: tuple[str, str]
) -> None:
    anna, bert = (Caller(connect(user=name)) for name in staff)
    shop("grant_queue", "q", staff[0])
    with nothing_changes(shop.db):
        for call in CONSUMING:
            with refused("PS009", staff[1], "'q'"):
                bert.rows(*call)
    assert len(anna.consume("q")) == 1
    for call in CONSUMING:
        anna.rows(*call)
    shop("revoke_queue", "q", staff[0])
    with refused("PS009"):
        anna.consume("q")
    shop("grant_queue", "q", "public")
    bert.publish("t", 1)
    assert len(bert.consume("q")) == 1


def test_granted_reader_is_only_for_those_it_was_granted_to(
    shop: Caller, connect: Connect, staff: tuple[str, str]
) -> None:
    anna, bert = (Caller(connect(user=name)) for name in staff)
    shop("create_reader", "lake", "t", "beginning")
    shop("grant_reader", "lake", staff[0])
    with nothing_changes(shop.db):
        for call in (("read_window", "lake"), ("commit_window", "lake", 1)):
            with refused("PS009", staff[1], "'lake'"):
                bert.rows(*call)
    assert anna.rows("read_window", "lake")
    shop("revoke_reader", "lake", staff[0])
    with refused("PS009"):
        anna.rows("read_window", "lake")
    shop("grant_reader", "lake", "public")
    assert bert.rows("read_window", "lake")


def test_admin_may_use_what_was_granted_to_others(
    shop: Caller, connect: Connect, staff: tuple[str, str]
) -> None:
    shop("grant_queue", "q", staff[0])
    shop("grant_topic", "t", staff[0])
    me = Caller(connect(role="penstock_admin"))
    assert me.publish("t", 1)
    assert len(me.consume("q")) == 2
    me("revoke_queue", "q", staff[0])
    me("revoke_topic", "t", staff[0])


def test_monitor_counts_a_queue_that_was_granted_to_others(
    shop: Caller, connect: Connect, staff: tuple[str, str]
) -> None:
    shop("grant_queue", "q", staff[0])
    me = Caller(connect(role="penstock_monitor"))
    assert me.statistics("q").pending_count == 1


def test_grants_to_roles_that_do_not_exist_are_refused(shop: Caller) -> None:
    with nothing_changes(shop.db), refused("PS005", "nobody_at_all"):
        shop("grant_topic", "t", "nobody_at_all")
    with nothing_changes(shop.db), refused("PS005", "nobody_at_all"):
        shop("grant_queue", "q", "nobody_at_all")


def test_publisher_cannot_slip_code_of_its_own_into_the_engine(
    shop: Caller, connect: Connect, staff: tuple[str, str]
) -> None:
    session = connect(user=staff[0])
    session.execute("create temp table settings (x int)")
    session.execute(
        "create function pg_temp.clock_timestamp() returns timestamptz language plpgsql as "
        "$$ begin raise 'hijacked as %', current_user; end $$"
    )
    session.execute(
        "create function pg_temp.nextval(text) returns bigint language plpgsql as "
        "$$ begin raise 'hijacked as %', current_user; end $$"
    )
    session.execute("set search_path = pg_temp, pg_catalog")
    me = Caller(session)
    assert me.publish("t", 1, dedupe_key="k")
    assert me.publish_many("t", [1])
    assert me.consume("q")
    session.execute("discard temp")


def test_role_that_is_not_a_member_cannot_take_on_a_role(
    mq: Caller, stranger: str, connect: Connect
) -> None:
    session = connect(user=stranger)
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        session.execute("set role penstock_admin")
