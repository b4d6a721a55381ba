"""Offsets that outlive what they stand on: the server is killed, a standby is promoted.

Publishers commit, roll back and commit late.  Offsets are kept by the reader of the log, as a
checkpoint keeps them.  What was published and acknowledged, and is there, must be read.
"""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from psycopg.types.json import Jsonb

from prove.replicas import pair
from prove.servers import mortal
from tests.sql.refusals import refused
from tests.sql.test_streams import Stream, commit, open_stream, publish

if TYPE_CHECKING:
    from collections.abc import Iterator

KILLS = 3
# Only transactions that ask for it are flushed.
LAZY = {"wal_writer_delay": "10s"}


def connected(dsn: str) -> psycopg.Connection[Any]:
    return psycopg.connect(dsn, autocommit=True)


class Views:
    """The same log through everything that reads it: an unnamed stream, a group, a reader."""

    def __init__(self, db: psycopg.Connection[Any]) -> None:
        db.execute("select penstock.create_topic('orders')")
        db.execute("select penstock.create_reader('export', 'orders', 'beginning')")
        self.alone = Stream(db, "orders")
        self.group = Stream(db, "orders", name="copy")
        open_stream(db, "copy", self.group, self.group.at)
        self.seen: dict[str, Counter[int]] = {
            name: Counter() for name in ("alone", "group", "export")
        }

    def look(self, db: psycopg.Connection[Any], *, last: bool = False) -> None:
        """A few messages through each; with `last` all that there are."""
        while sum((self._streams(db), self._reader(db))) and last:
            pass

    def _streams(self, db: psycopg.Connection[Any]) -> int:
        count = 0
        for name in ("alone", "group"):
            stream: Stream = getattr(self, name)
            stream.db = db
            # As with a checkpoint: the batch before is done, the next one is asked for.
            if stream.name is not None:
                commit(db, stream.name, stream.at)
            found = stream.read(max_rows=7)
            self.seen[name].update(found)
            count += len(found)
        return count

    def rush(self, db: psycopg.Connection[Any]) -> None:
        """Everything through the stream that nothing but its offset has the server flush for."""
        self.alone.db = db
        while found := self.alone.read():
            self.seen["alone"].update(found)

    def _reader(self, db: psycopg.Connection[Any]) -> int:
        rows = db.execute("select message_id, payload from penstock.read_window('export', 5)")
        found = rows.fetchall()
        if found:
            db.execute("select penstock.commit_window('export', %s)", (found[-1][0],))
        self.seen["export"].update(payload for _id, payload in found)
        return len(found)

    def lost(self, published: set[int]) -> dict[str, set[int]]:
        return {name: published - seen.keys() for name, seen in self.seen.items()}

    def doubled(self) -> dict[str, int]:
        return {name: sum(seen.values()) - len(seen) for name, seen in self.seen.items()}


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that the account of the servers can reach."""
    folder = Path(tempfile.mkdtemp(prefix="penstock-test-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


PASS_BY = """
do $$ begin for n in 1..1000 loop perform pg_current_xact_id(); commit; end loop; end $$
"""
NONE_LOST: dict[str, set[int]] = {"alone": set(), "group": set(), "export": set()}


def roll_back(db: psycopg.Connection[Any], times: int) -> None:
    for _ in range(times):
        with db.transaction(force_rollback=True):
            publish(db, "orders", -1)


def test_a_killed_server_loses_no_message_of_a_stream() -> None:
    published: set[int] = set()
    with mortal(**LAZY) as server:
        with connected(server.dsn()) as db:
            views = Views(db)
        for kill in range(KILLS):
            with connected(server.dsn()) as db, connected(server.dsn()) as late:
                numbers = [kill * 100 + n for n in range(10)]
                late.execute("begin")
                publish(late, "orders", numbers[0])
                for number in numbers[1:]:
                    publish(db, "orders", number)
                views.look(db)
                late.execute("commit")
                published.update(numbers)
                # Transaction ids that the server forgets, unless an offset has it flush them.
                roll_back(db, 10)
                views.rush(db)
                server.kill()
            server.start()
        with connected(server.dsn()) as db:
            numbers = list(range(1000, 1020))
            for number in numbers:
                publish(db, "orders", number)
            published.update(numbers)
            views.look(db, last=True)
    assert views.lost(published) == NONE_LOST
    assert views.doubled() == {"alone": 0, "group": 0, "export": 0}


def test_a_promoted_standby_refuses_what_it_never_gave_and_shows_the_way_back(
    place: Path,
) -> None:
    with pair(place, synchronous=False) as servers:
        with connected(servers.primary.dsn()) as db:
            views = Views(db)
            publish(db, "orders", *range(20))
            views.look(db, last=True)
            await_replay(servers)
            servers.silence()
            # A tail that will be lost, with windows opened and offsets given in it.
            for number in range(100, 115):
                publish(db, "orders", number)
                views.look(db)
            views.look(db, last=True)
            publish(db, "orders", 140)
            lost_read = db.execute("select message_id from penstock.read_window('export')")
            lost_id = lost_read.fetchall()[-1][0]
        servers.fail_over()
        with connected(servers.primary.dsn()) as db:
            # Their transaction ids are those of the tail, so that a lost offset seems to know them.
            for number in range(200, 300):
                publish(db, "orders", number)
            db.execute(PASS_BY)
            for stream in (views.alone, views.group):
                stream.db = db
                with refused("PS015", "lost what the offset stands on"):
                    stream.next()
                found = db.execute(
                    "select penstock.safe_offset(%s, %s)", (Jsonb(stream.at), stream.name)
                ).fetchone()
                assert found is not None
                stream.at = found[0]
            # The window that the client had read is not this server's.
            with refused("PS015", "was not given message"):
                db.execute("select penstock.commit_window('export', %s)", (lost_id,))
            views.look(db, last=True)
    assert views.lost({*range(20), *range(200, 300)}) == NONE_LOST
    # What both histories share was read, and the way back goes no farther.
    assert all(count <= 20 for count in views.doubled().values())


def await_replay(servers: Any) -> None:
    from tests.fixtures.patience import eventually_sync

    with connected(servers.primary.dsn()) as db:
        eventually_sync(
            lambda: (
                db.execute(
                    "select replay_lsn >= pg_current_wal_lsn() from pg_stat_replication"
                ).fetchone()
                == (True,)
            )
        )


def test_idle_stream_writes_nothing(db: psycopg.Connection[Any]) -> None:
    db.execute("select penstock.create_topic('orders')")
    stream = Stream(db, "orders", name="copy")
    open_stream(db, "copy", stream, stream.at)
    publish(db, "orders", 1)
    assert stream.read() == [1]
    commit(db, "copy", stream.at)
    with db.transaction():
        assert stream.next() == stream.at
        assert db.execute("select pg_current_xact_id_if_assigned()").fetchone() == (None,)


@pytest.mark.parametrize("setting", ["off", "local", "remote_apply"])
def test_an_offset_is_flushed_before_it_leaves(db: psycopg.Connection[Any], setting: str) -> None:
    db.execute(f"set synchronous_commit = {setting}".encode())
    with db.transaction():
        db.execute("select penstock.log_offset()")
        found = db.execute("show synchronous_commit").fetchone()
    assert found == ("remote_apply" if setting == "remote_apply" else "on",)
    assert db.execute("show synchronous_commit").fetchone() == (setting,)


def test_marks_are_few(db: psycopg.Connection[Any]) -> None:
    for _ in range(50):
        db.execute("select penstock.log_offset()")
    assert db.execute("select count(*) <= 21 from penstock_data.stream_marks").fetchone() == (True,)
