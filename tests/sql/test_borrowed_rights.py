"""Code of one role that another role's session runs, and names that change hands."""

from __future__ import annotations

from secrets import token_hex
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from penstock import schema
from penstock.testing import server as private
from tests.concurrency.sessions import until
from tests.fixtures.servers import available
from tests.sql.caller import Caller
from tests.sql.refusals import refused

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.fixtures.databases import Connect


@pytest.fixture
def make_role(mq: Caller) -> Iterator[Callable[..., str]]:
    """Roles that are dropped at the end, with all that they own."""
    made = []

    def make(*groups: str, name: str | None = None) -> str:
        role = name or f"penstock_guest_{token_hex(4)}"
        mq.db.execute(f"create role {role} login".encode())
        made.append(role)
        for group in groups:
            mq.db.execute(f"grant {group} to {role}".encode())
        return role

    yield make
    for role in made:
        if mq.value("select count(*) from pg_roles where rolname = %s", role):
            mq.db.execute(f"drop owned by {role}".encode())
            mq.db.execute(f"drop role {role}".encode())


def lay_bait(mq: Caller, role: str, statement: str) -> None:
    """A table of the role's whose index calls `statement` whenever somebody analyses the table."""
    mq.db.execute(
        f"""
        create schema bait authorization {role};
        set role {role};
        create table bait.fish (n int);
        create table bait.loot (found text, pid int default pg_backend_pid());
        create function bait.steal() returns void language plpgsql as $steal$
        begin
            insert into bait.loot (found) select coalesce(({statement})::text, 'nothing');
        exception when others then
            insert into bait.loot (found) values ('refused ' || sqlstate);
        end $steal$;
        create function bait.hook(n int) returns int language plpgsql immutable as $hook$
        begin
            perform bait.steal();
            return n;
        end $hook$;
        create index on bait.fish (bait.hook(n));
        insert into bait.fish values (1), (2), (3);
        delete from bait.loot;
        reset role;
        """.encode()
    )


def loot(mq: Caller) -> set[str]:
    return {row.found for row in mq.query("select found from bait.loot")}


READ_QUEUE = "select payload from penstock.consume_message('secrets', 'thief')"
READ_LOG = "select string_agg(payload::text, ',') from penstock.log"
RECEIVE = """select pgqs.invoke('ReceiveMessage', '{"QueueUrl": "letters"}')"""
DELETE = """select pgqs.invoke('DeleteQueue', '{"QueueUrl": "letters"}')"""


@pytest.mark.parametrize(
    ("group", "statement"),
    [
        ("penstock_consumer", READ_QUEUE),
        ("penstock_consumer", READ_LOG),
        ("penstock_monitor", RECEIVE),
        ("penstock_monitor", DELETE),
    ],
)
@pytest.mark.parametrize("command", ["analyze bait.fish", "reindex table bait.fish"])
def test_an_index_expression_does_not_get_the_rights_of_the_session_that_evaluates_it(
    mq: Caller, make_role: Callable[..., str], group: str, statement: str, command: str
) -> None:
    reserve(mq)
    lay_bait(mq, make_role(group), statement)
    mq.db.execute(command.encode())
    assert len(loot(mq)) == 1
    assert loot(mq).pop().startswith("refused")
    assert [row.payload for row in mq.consume("secrets")] == [{"secret": 1}]
    assert mq.value("""select pgqs.invoke('ReceiveMessage', '{"QueueUrl": "letters"}')""")[
        "Messages"
    ]


def reserve(mq: Caller) -> None:
    """A queue that only penstock_admin may use, and an SQS queue, each with a message."""
    mq("create_queue", "secrets", "t")
    mq("grant_queue", "secrets", "penstock_admin")
    mq.publish("t", {"secret": 1})
    mq.db.execute("""select pgqs.invoke('CreateQueue', '{"QueueName": "letters"}')""")
    mq.db.execute(
        """select pgqs.invoke('SendMessage', '{"QueueUrl": "letters", "MessageBody": "dear"}')"""
    )


def test_a_materialized_view_does_not_get_the_rights_of_the_session_that_refreshes_it(
    mq: Caller, make_role: Callable[..., str]
) -> None:
    reserve(mq)
    role = make_role("penstock_consumer")
    mq.db.execute(
        f"create schema bait authorization {role}; set role {role};"
        f" create materialized view bait.view as {READ_QUEUE} with no data; reset role".encode()
    )
    with pytest.raises(psycopg.Error) as refusal:
        mq.db.execute("refresh materialized view bait.view")
    assert refusal.value.sqlstate == "PS009"


def test_autovacuum_reads_nothing_for_the_owner_of_an_index_expression() -> None:
    """The worker's session is a superuser's, and no client asked for it."""
    binaries = next(iter(available().values()))
    settings = {
        "autovacuum": "on",
        "autovacuum_naptime": "1s",
        "autovacuum_analyze_threshold": "0",
        "autovacuum_analyze_scale_factor": "0",
    }
    with private.cluster(binaries) as (programs, owner, folder):
        process, port = private.start(programs, owner, folder, settings=settings)
        server = private.Server("autovacuum", programs, folder, port, process.pid)
        try:
            steal_by_autovacuum(server)
        finally:
            private.end(process)


def steal_by_autovacuum(server: private.Server) -> None:
    with psycopg.connect(server.dsn("postgres"), autocommit=True) as db:
        schema.install(db)
        mq = Caller(db)
        reserve(mq)
        db.execute("create role thief login; grant penstock_consumer to thief")
        lay_bait(mq, "thief", READ_QUEUE)
        others = "select found from bait.loot where pid <> pg_backend_pid()"
        until(lambda: bool(mq.query(others)))
        assert {row.found for row in mq.query(others)} == {"refused PS009"}
        assert [row.payload for row in mq.consume("secrets")] == [{"secret": 1}]


@pytest.mark.parametrize("whom", ["a role", "public"])
def test_default_privileges_open_nothing(
    mq: Caller, make_role: Callable[..., str], empty_database: Any, whom: str
) -> None:
    role = make_role()
    to = role if whom == "a role" else "public"
    with psycopg.connect(empty_database.dsn, autocommit=True) as db:
        for things in ("tables", "sequences", "functions", "schemas"):
            db.execute(f"alter default privileges grant all on {things} to {to}".encode())
        schema.install(db)
        shop = Caller(db)
        shop("create_queue", "q", "t")
        for kind in ("messages", "receipts"):
            db.execute("select penstock_data.add_segment(%s)", [kind])
        db.execute("select penstock.open_part('w', 1)")
        opened = db.execute(
            """
            select c.oid::regclass::text from pg_class c
            where c.relnamespace::regnamespace::text ~ '^(penstock|pgqs)'
              and c.relkind in ('r', 'p', 'v')
              and has_table_privilege(%(role)s, c.oid, 'select, insert, update, delete')
            union all
            select p.oid::regprocedure::text from pg_proc p
            where p.pronamespace::regnamespace::text ~ '^(penstock|pgqs)'
              and has_function_privilege(%(role)s, p.oid, 'execute')
            union all
            select n.nspname from pg_namespace n
            where n.nspname ~ '^(penstock|pgqs)'
              and has_schema_privilege(%(role)s, n.oid, 'usage, create')
            """,
            {"role": role},
        ).fetchall()
        assert opened == []
        db.execute(f"drop owned by {role}".encode())


def test_a_role_created_again_under_its_name_gets_nothing_that_the_former_had(
    mq: Caller, make_role: Callable[..., str], connect: Connect
) -> None:
    name = make_role("penstock_consumer", "penstock_publisher")
    for queue in ("q", "other"):
        mq("create_queue", queue, "t")
        mq("grant_queue", queue, name)
    mq("grant_topic", "t", name)
    mq("create_reader", "r", "t")
    mq("grant_reader", "r", name)
    former = Caller(connect(user=name))
    former.publish("t", 1)
    assert former.consume("q")
    former.db.close()
    mq.db.execute(f"drop owned by {name}; drop role {name}".encode())
    make_role("penstock_consumer", "penstock_publisher", name=name)
    heir = Caller(connect(user=name))
    with refused("PS009"):
        heir.publish("t", 2)
    with refused("PS009"):
        heir.consume("q")
    with refused("PS009"):
        heir.rows("read_window", "r", 10)

    mq("grant_queue", "q", name)
    heir.consume("q")
    with refused("PS009"):
        heir.consume("other")


def test_a_name_whose_role_is_not_known_passes_nothing_on(
    mq: Caller, make_role: Callable[..., str], connect: Connect
) -> None:
    """As after an upgrade or a restore, when a role with grants did not exist any more."""
    name = make_role("penstock_consumer")
    for queue in ("q", "other"):
        mq("create_queue", queue, "t")
    mq("grant_queue", "other", name)
    mq.db.execute("delete from penstock_data.grantees")
    mq("grant_queue", "q", name)
    heir = Caller(connect(user=name))
    heir.consume("q")
    with refused("PS009"):
        heir.consume("other")


def test_grants_follow_a_role_that_is_renamed(
    mq: Caller, make_role: Callable[..., str], connect: Connect
) -> None:
    name = make_role("penstock_consumer")
    mq("create_queue", "q", "t")
    mq("grant_queue", "q", name)
    mq.publish("t", 1)
    renamed = f"{name}_renamed"
    mq.db.execute(f"alter role {name} rename to {renamed}".encode())
    try:
        assert Caller(connect(role=renamed)).consume("q")
    finally:
        mq.db.execute(f"alter role {renamed} rename to {name}".encode())


def test_health_says_when_the_owner_does_not_see_the_sessions_of_others(
    mq: Caller, make_role: Callable[..., str], empty_database: Any
) -> None:
    owner = make_role()
    with psycopg.connect(empty_database.dsn, autocommit=True) as root:
        root.execute(f"grant create on database {empty_database.name} to {owner}".encode())
        root.execute(f"set role {owner}".encode())
        schema.install(root)
        sight = "select ok, advice from penstock.health() where name = 'sight'"
        assert root.execute(sight).fetchone() == (False, f"grant pg_read_all_stats to {owner}")
        root.execute(f"reset role; grant pg_read_all_stats to {owner}; set role {owner}".encode())
        assert root.execute(sight).fetchone() == (True, None)
        root.execute("reset role")
        root.execute(f"drop owned by {owner} cascade".encode())
