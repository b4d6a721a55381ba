"""The command line connects as every part of Penstock does: with all of `Settings`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from psycopg.conninfo import make_conninfo

from penstock.cli.session import Session
from tests.acceptance.commandline import CommandLine
from tests.client._async.test_defaults import DEFAULTS, set_defaults
from tests.client._async.test_standby import CANCEL, absent_standby
from tests.fixtures.patience import eventually_sync

if TYPE_CHECKING:
    from pathlib import Path

    import psycopg

    from tests.fixtures.databases import Connect, Database
    from tests.fixtures.pgbouncer import Pgbouncer

__all__ = ["absent_standby"]


def day(penstock: CommandLine) -> None:
    """What reads dates and intervals, and what runs more than a few statements."""
    penstock.ok("queue", "create", "billing", "--topic", "orders", "--retention", "1h")
    lines = "".join(f"{number}\n" for number in range(2000))
    penstock.ok("message", "publish", "orders", "--file", "-", stdin=lines)
    [queue] = penstock.ok("queue", "list", "--json").json
    assert queue["retention"] == 3600
    [message] = penstock.ok("message", "consume", "billing", "--ack", "--json").lines
    assert message["claimed_until"] > message["published_at"]
    assert len(penstock.ok("queue", "watch", "--count", "8", "--every", "1ms", "--json").lines) == 8
    exported = penstock.ok("message", "export", "billing").lines
    assert [each["payload"] for each in exported] == list(range(1, 2000))
    assert penstock.ok("maintain", "--json").json


@pytest.mark.parametrize("name", DEFAULTS)
def test_commands_work_where_a_database_has_defaults_of_its_own(
    database: Database, db: psycopg.Connection[Any], name: str
) -> None:
    set_defaults(db, name)
    day(CommandLine(database.dsn))


def test_commands_work_behind_a_pooler(
    pgbouncer: Pgbouncer, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    penstock = CommandLine(pgbouncer.dsn(database.name))
    monkeypatch.setattr(CommandLine, "environment", _with_pooler(CommandLine.environment))
    day(penstock)


def _with_pooler(environment: Any) -> Any:
    def more(self: CommandLine, given: dict[str, str]) -> dict[str, str]:
        found: dict[str, str] = environment(self, given | {"PENSTOCK_POOLER": "yes"})
        return found

    return more


def test_a_command_gives_up_when_a_lock_is_in_its_way(database: Database, connect: Connect) -> None:
    penstock = CommandLine(database.dsn)
    penstock.ok("queue", "create", "billing")
    other = connect(autocommit=False)
    other.execute("lock table penstock_data.queues in access exclusive mode")
    ran = penstock("queue", "pause", "billing", PENSTOCK_CALL_TIMEOUT="1")
    assert ran.code == 1
    assert "did not answer within 1 s" in ran.err
    assert "PENSTOCK_CALL_TIMEOUT" in ran.err


def test_a_connection_has_keepalives_and_the_name_of_the_settings(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PENSTOCK_APPLICATION_NAME", "night shift")
    with Session(database.dsn, json=True) as session:
        found = session.connection.info.get_parameters()
        assert found["application_name"] == "night shift"
        assert found["keepalives_idle"] == "5"
        assert session.connection.answer_within == 30


@pytest.mark.usefixtures("absent_standby")
@pytest.mark.parametrize("way", ["call", "transaction"])
def test_a_commit_that_no_standby_confirmed_is_not_called_done(
    database: Database, db: psycopg.Connection[Any], tmp_path: Path, way: str
) -> None:
    db.execute("select penstock.create_queue('billing', 'orders')")
    file = tmp_path / "orders.jsonl"
    file.write_text("1\n")
    penstock = CommandLine(make_conninfo(database.dsn, options="-c synchronous_commit=on"))
    words = ["1"] if way == "call" else ["--file", str(file)]
    running = penstock.start("message", "publish", "orders", *words)
    eventually_sync(lambda: db.execute(CANCEL).fetchall())
    _, err = running.communicate(timeout=60)
    assert running.returncode == 1
    assert "standby" in err
    assert "Traceback" not in err
    assert db.execute("select count(*) from penstock.messages").fetchone() == (1,)
