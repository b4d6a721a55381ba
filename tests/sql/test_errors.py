"""Every SQLSTATE of the engine's own: who raises it, what it says, what to do."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from penstock import schema
from penstock.embedded import account
from penstock.errors import BY_SQLSTATE
from tests.fixtures import cluster
from tests.fixtures.clock import advance
from tests.sql.caller import Caller
from tests.sql.refusals import refused

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.fixtures.databases import Connect, Database


def expired(mq: Caller) -> None:
    mq("create_queue", "mine", exclusive=True, keep_alive_seconds=1)
    advance(mq.db, seconds=2)
    mq.consume("mine")


def full(mq: Caller) -> None:
    mq("configure", "max_log_bytes", "1")
    mq.rows("maintain")
    mq.publish("t", 1)


def restored(mq: Caller) -> None:
    mq.db.execute("update penstock_data.settings set incarnation_xid = '7'")
    mq.publish("t", 1)


def reserved(mq: Caller) -> None:
    mq("grant_queue", "q", "pg_monitor")
    mq.db.execute("set role penstock_consumer")
    mq.consume("q")


CAUSES: dict[str, Callable[[Caller], Any]] = {
    "PS001": lambda mq: mq.publish("nothing"),
    "PS002": lambda mq: mq.consume("nothing"),
    "PS003": lambda mq: mq.rows("read_window", "nothing"),
    "PS004": lambda mq: mq("create_topic", ""),
    "PS005": lambda mq: mq.consume("q", 0),
    "PS006": lambda mq: mq("create_queue", "q", "t", max_delivery_attempts=99),
    "PS007": lambda mq: mq.publish("t", 1, key="x" * 2000),
    "PS008": expired,
    "PS009": reserved,
    "PS010": restored,
    "PS013": full,
    "PS014": lambda mq: mq("requeue_dlq_messages", "q", [1]),
}


@pytest.mark.parametrize("code", CAUSES)
def test_error_says_what_happened_and_what_to_do(mq: Caller, code: str) -> None:
    mq("create_queue", "q", "t")
    cures = {row.code: row.cure for row in mq.rows("error_codes")}
    with pytest.raises(psycopg.Error) as caught:
        CAUSES[code](mq)
    said = caught.value.diag
    assert said.sqlstate == code
    assert said.message_hint == cures[code]
    assert len(said.message_primary or "") > 10


def test_error_codes_are_listed_in_one_place_and_known_to_python(mq: Caller) -> None:
    rows = mq.rows("error_codes")
    assert [row.code for row in rows] == sorted(row.code for row in rows)
    assert {row.code for row in rows} == {code for code in BY_SQLSTATE if code.startswith("PS")}
    assert len({row.name for row in rows}) == len(rows)
    assert all(row.cause and row.cure for row in rows)


def test_every_listed_code_is_raised_by_something(mq: Caller) -> None:
    files = [f for f in schema.folder().rglob("*.sql") if f.name != "error_codes.sql"]
    text = "\n".join(
        line
        for file in files
        for line in file.read_text(encoding="utf-8").splitlines()
        if not line.lstrip().startswith("--")
    )
    assert [row.code for row in mq.rows("error_codes") if f"'{row.code}'" not in text] == []


def test_everything_raised_is_listed(mq: Caller) -> None:
    # PS000 never leaves the engine: it undoes a block.
    listed = {row.code for row in mq.rows("error_codes")} | {"PS000"}
    for file in schema.folder().rglob("*.sql"):
        for word in file.read_text(encoding="utf-8").split("'"):
            if len(word) == 5 and word.startswith("PS") and word[2:].isdigit():
                assert word in listed, file


def test_newer_schema_refuses_older_scripts_with_ps012(database: Database, mq: Caller) -> None:
    mq.db.execute(
        "create or replace function penstock.schema_version() returns int language sql "
        "immutable as 'select 999'"
    )
    script = str(schema.folder() / "install.sql")
    done = database.psql("-v", "VERBOSITY=verbose", "-f", script, check=False)
    assert done.returncode != 0
    assert "PS012" in done.stderr
    assert "999" in done.stderr
    assert "newer release" in done.stderr


@contextmanager
def standby_of(primary: cluster.Server) -> Iterator[cluster.Server]:
    """A hot standby that has everything of this moment."""
    owner = account.current()
    folder = Path(tempfile.mkdtemp(prefix="penstock-standby-"))
    try:
        owner.own(folder)
        folder.chmod(0o755)
        subprocess.run(
            [
                primary.binaries.program("pg_basebackup"),
                *("-D", str(folder / "data"), "-d", primary.dsn("postgres")),
                *("--checkpoint=fast", "--wal-method=stream", "--no-sync"),
            ],
            check=True,
            capture_output=True,
            cwd=folder,
            **owner.process_options,
        )
        (folder / "data" / "standby.signal").touch()
        owner.own(folder / "data" / "standby.signal")
        process, port = cluster._start(primary.binaries, owner, folder)
        try:
            yield cluster.Server("standby", primary.binaries, folder, port, process.pid)
        finally:
            cluster._end(process)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def test_standby_refuses_to_take_positions_and_still_counts(database: Database, mq: Caller) -> None:
    mq("create_queue", "q", "t")
    mq("create_queue", "lanes", "t", ordering="fifo")
    mq("create_reader", "r", "t")
    mq.publish_many("t", [1, 2])
    with (
        standby_of(database.server) as standby,
        psycopg.connect(standby.dsn(database.name), autocommit=True) as session,
    ):
        there = Caller(session)
        for queue in ("q", "lanes"):
            with refused("PS011", "standby"):
                there.consume(queue)
            assert there.statistics(queue).pending_count == 2
        with refused("PS011", "standby"):
            there.rows("read_window", "r")
        with pytest.raises(psycopg.Error):
            there.publish("t", 3)
        assert len(there.rows("browse_messages", "q")) == 2
        assert len(there.rows("list_queues")) == 2
        assert {row.name for row in there.rows("health")} >= {"cluster", "claim locks"}


def test_error_leaves_the_session_usable(mq: Caller, connect: Connect) -> None:
    with refused("PS001"):
        mq.publish("nothing")
    mq("create_queue", "q", "t")
    assert mq.publish("t", 1)
    assert mq.payloads("q") == [1]
