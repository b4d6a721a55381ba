"""Databases that were restored, copied, upgraded or promoted: nothing is lost, and what can't go on
as it is says so."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from penstock import schema
from tests.fixtures import cluster
from tests.fixtures.databases import Database
from tests.sql.caller import Caller
from tests.sql.refusals import nothing_changes, refused
from tests.sql.traffic import Traffic

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

ROLES = ("publisher", "consumer", "monitor", "admin")
# How people dump, and how they restore.
WAYS: dict[str, tuple[list[str], list[str]]] = {
    "custom format": (["-Fc"], ["pg_restore", "--exit-on-error"]),
    "one transaction": (
        ["-Fc"],
        ["pg_restore", "--single-transaction", "--no-acl", "--no-owner"],
    ),
    "several jobs": (["-Fc"], ["pg_restore", "--exit-on-error", "--jobs=2"]),
    "plain": (["-Fp"], ["psql", "-X", "-q", "-v", "ON_ERROR_STOP=1"]),
    "plain inserts": (
        ["-Fp", "--inserts"],
        ["psql", "-X", "-q", "-v", "ON_ERROR_STOP=1"],
    ),
}


def perform(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def carry(source: Database, target: Database, folder: Path, way: str) -> None:
    """Dump a database, and restore it into another one that exists."""
    file = str(folder / "dump")
    dump, (program, *restore) = WAYS[way]
    perform(source.server.binaries.program("pg_dump"), *dump, "-f", file, "-d", source.dsn)
    command = [target.server.binaries.program(program), *restore, "-d", target.dsn]
    perform(*command, *([file] if program == "pg_restore" else ["-f", file]))


@pytest.fixture(scope="module")
def elsewhere(server: cluster.Server) -> Iterator[cluster.Server]:
    """Another cluster, with the roles, for the whole module."""
    with cluster.running(f"{server.name}-elsewhere", server.binaries) as found:
        found.administer(*(f"create role penstock_{role}" for role in ROLES))
        yield found


@pytest.fixture
def target(elsewhere: cluster.Server) -> Iterator[Database]:
    """An empty database of the other cluster."""
    elsewhere.administer("create database copy")
    yield Database(elsewhere, "copy")
    elsewhere.administer("drop database copy (force)")


@pytest.fixture
def visit() -> Iterator[Callable[[Database], Caller]]:
    """Open a session on any database, closed at the end."""
    opened: list[psycopg.Connection[Any]] = []

    def connect(database: Database) -> Caller:
        opened.append(psycopg.connect(database.dsn, autocommit=True))
        return Caller(opened[-1])

    yield connect
    for conn in opened:
        conn.close()


@pytest.mark.parametrize("way", WAYS)
def test_a_restored_dump_is_refused_and_loses_nothing_by_a_rebase(
    way: str, database: Database, mq: Caller, target: Database, visit: Any, tmp_path: Path
) -> None:
    traffic = Traffic.begin(mq)
    carry(database, target, tmp_path, way)
    there = visit(target)
    with nothing_changes(there.db), refused("PS010", "another cluster"):
        there.publish("t")
    assert there("rebase") > 0
    traffic.finish(there, rebased=True)
    assert there("rebase") == 0


def repeat_the_transaction_id(there: Caller) -> None:
    """As if the restore had, by chance, written the row with the transaction id noted at home."""
    there.db.execute(
        "update penstock_data.settings set incarnation_xid = "
        "(select xmin from penstock_data.incarnation)"
    )


# In the server, because a round trip for each would take a minute on a busy machine.
_USE_UP = """
do $$
begin
    while pg_snapshot_xmax(pg_current_snapshot())::text::bigint < {xid} loop
        perform pg_current_xact_id();
        commit;
    end loop;
end
$$
"""


def burn(dsn: str, xid: int) -> None:
    """Use up transaction ids until this one is the next, or a later one."""
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute(_USE_UP.format(xid=xid).encode())


def test_a_restore_that_repeats_the_transaction_id_is_noticed(
    empty_database: Database, second_server: cluster.Server, visit: Any, tmp_path: Path
) -> None:
    mq = visit(empty_database)
    for _ in range(50):
        mq.db.execute("select pg_current_xact_id()")
    with psycopg.connect(empty_database.dsn) as conn:
        schema.install(conn)
    traffic = Traffic.begin(mq)
    noted = mq.value("select incarnation_xid::text::int from penstock_data.settings")
    second_server.administer("create database copy")
    copy = Database(second_server, "copy")
    burn(second_server.dsn("postgres"), noted)
    carry(empty_database, copy, tmp_path, "one transaction")
    there = visit(copy)
    repeated = "select i.xmin::text::int from penstock_data.incarnation i"
    assert there.value(repeated) == noted
    for call in (
        lambda: there.publish("t"),
        lambda: there.consume("plain"),
        lambda: there.rows("maintain"),
        lambda: there.rows("read_window", "r"),
        lambda: there("log_offset"),
        lambda: there("extend_message_vt", "plain", 1, "me", 10),
    ):
        with refused("PS010", "restored from another cluster"):
            call()
    (check,) = [row for row in there.rows("health") if row.name == "cluster"]
    assert not check.ok
    there("rebase")
    traffic.finish(there, rebased=True)


def catch_up(target: Database, mq: Caller) -> None:
    """Use up transaction ids, until everything of the one server lies in the other's past."""
    now = mq.value("select pg_snapshot_xmax(pg_current_snapshot())::text::bigint")
    burn(target.dsn, now)


@pytest.mark.parametrize("way", ["one transaction", "plain inserts"])
def test_a_repeated_transaction_id_is_noticed_where_nothing_lies_in_the_future(
    way: str, database: Database, mq: Caller, target: Database, visit: Any, tmp_path: Path
) -> None:
    Traffic.begin(mq)
    catch_up(target, mq)
    carry(database, target, tmp_path, way)
    repeat_the_transaction_id(visit(target))
    with refused("PS010", "restored from another cluster"):
        visit(target).publish("t")


# What an installation has of its own.
OWN = (
    "penstock_data.migrations",
    "penstock_data.settings",
    "penstock_data.incarnation",
    "penstock_data.origin",
    "penstock_data.error_codes",
    "penstock_data.segments",
    "penstock_data.maintenance",
    "penstock_data.named_locks",
    "penstock_data.message_locks",
    "pgqs_data.system",
    "pgqs.error_shapes",
)


def carry_data(source: Database, target: Database, folder: Path) -> None:
    """Install into the other database, and restore nothing but the data."""
    with psycopg.connect(target.dsn) as conn:
        schema.install(conn)
    file = str(folder / "dump")
    program = source.server.binaries.program
    left_out = [f"--exclude-table={name}" for name in OWN]
    perform(program("pg_dump"), "-Fc", "--data-only", *left_out, "-f", file, "-d", source.dsn)
    words = ("--exit-on-error", "--disable-triggers", "-d", target.dsn, file)
    perform(program("pg_restore"), *words)


def test_data_restored_into_a_fresh_installation_is_noticed(
    database: Database, mq: Caller, second_server: cluster.Server, visit: Any, tmp_path: Path
) -> None:
    """Its own marks say that it is at home; the log that was put into it is not."""
    traffic = Traffic.begin(mq)
    for _ in range(500):
        mq.db.execute("select pg_current_xact_id()")
    traffic.publish(mq, 1)
    second_server.administer("create database copy")
    copy = Database(second_server, "copy")
    carry_data(database, copy, tmp_path)
    there = visit(copy)
    with refused("PS010", "not given yet"):
        there.publish("t")
    assert there("rebase") > 0
    traffic.finish(there, rebased=True)


def test_data_that_lies_in_the_past_of_an_installation_is_sound_as_it_is(
    database: Database, mq: Caller, target: Database, visit: Any, tmp_path: Path
) -> None:
    traffic = Traffic.begin(mq)
    catch_up(target, mq)
    carry_data(database, target, tmp_path)
    there = visit(target)
    assert there("rebase") == 0
    # Offsets of streams name the cluster, which is another one.
    traffic.finish(there, rebased=True)


def of_an_earlier_version(mq: Caller) -> None:
    mq.db.execute("drop table penstock_data.origin")


def test_an_earlier_installation_is_at_home_after_its_upgrade(
    database: Database, mq: Caller, visit: Any
) -> None:
    traffic = Traffic.begin(mq)
    of_an_earlier_version(mq)
    with psycopg.connect(database.dsn) as conn:
        schema.install(conn)
    traffic.finish(visit(database), rebased=False)


def test_an_upgrade_does_not_take_a_restored_dump_for_a_log_at_home(
    database: Database, mq: Caller, target: Database, visit: Any, tmp_path: Path
) -> None:
    traffic = Traffic.begin(mq)
    of_an_earlier_version(mq)
    carry(database, target, tmp_path, "custom format")
    with psycopg.connect(target.dsn) as conn:
        schema.install(conn)
    there = visit(target)
    with refused("PS010", "another cluster"):
        there.publish("t")
    there("rebase")
    traffic.finish(there, rebased=True)
