"""Offsets that outlive what they stand on: the server is killed, a standby is promoted.

Publishers commit, roll back and commit late.  Offsets are kept by the reader of the log, as a
checkpoint keeps them.  What was published and acknowledged, and is there, must be read.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
import tempfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from psycopg.types.json import Jsonb

from penstock.testing import server as servers
from prove.replicas import pair
from prove.servers import Mortal, mortal
from tests.sql.refusals import refused
from tests.sql.test_streams import Stream, commit, open_stream, publish

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.fixtures.databases import Connect

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


def drain(stream: Stream, db: psycopg.Connection[Any], **limits: int) -> list[int]:
    stream.db = db
    found: list[int] = []
    while batch := stream.read(**limits):
        found += batch
    return found


def copy_files(source: Mortal, folder: Path) -> None:
    """What a snapshot of the disk holds."""
    subprocess.run(["cp", "-a", str(source.folder / "data"), str(folder / "data")], check=True)
    source.owner.own(folder)


def busy_with_others(db: psycopg.Connection[Any]) -> None:
    """Marks behind every lost offset, of other streams."""
    for name in (None, "other"):
        other = Stream(db, "orders", name=name)
        if name is not None:
            open_stream(db, name, other, other.at)
        drain(other, db)


def go_back(stream: Stream) -> None:
    """The offset is refused, by every call, and the stream takes the way back."""
    with refused("PS015"):
        stream.next()
    if stream.name is not None:
        with refused("PS015"):
            commit(stream.db, stream.name, stream.at)
    query = "select penstock.safe_offset(%s, %s)"
    [(stream.at,)] = stream.db.execute(query, (Jsonb(stream.at), stream.name)).fetchall()


@pytest.mark.parametrize("name", [None, "copy"])
@pytest.mark.parametrize("limits", [{}, {"max_rows": 7}], ids=["whole windows", "cut windows"])
def test_a_disk_put_back_refuses_what_it_never_gave(
    place: Path, limits: dict[str, int], name: str | None
) -> None:
    """The timeline stays the same: what differs is the run of the server."""
    with mortal(fsync="off") as server:
        with connected(server.dsn()) as db:
            db.execute("select penstock.create_topic('orders')")
            publish(db, "orders", *range(5))
            stream = Stream(db, "orders", name=name)
            if name is not None:
                open_stream(db, name, stream, stream.at)
            assert drain(stream, db) == list(range(5))
        servers.end(server._process, signal.SIGINT)
        copy_files(server, place)
        server.start()
        with connected(server.dsn()) as db:
            publish_each(db, range(100, 140))
            assert drain(stream, db, **limits) == list(range(100, 140))
        server.kill()
        put_back = Mortal(server.binaries, server.owner, place, fsync="off")
        try:
            with connected(put_back.dsn()) as db:
                publish_each(db, range(200, 300))
                busy_with_others(db)
                stream.db = db
                go_back(stream)
                assert set(range(200, 300)) <= set(drain(stream, db))
        finally:
            put_back.end()


@pytest.mark.parametrize("name", [None, "copy"])
def test_two_standbys_promoted_from_one_primary_don_t_take_each_other_s_offsets(
    place: Path, name: str | None
) -> None:
    """Both write timeline 2."""
    with mortal(fsync="off") as server:
        with connected(server.dsn()) as db:
            db.execute("select penstock.create_topic('orders')")
            publish(db, "orders", *range(5))
            stream = Stream(db, "orders", name=name)
            if name is not None:
                open_stream(db, name, stream, stream.at)
            drain(stream, db)
            if name is not None:
                commit(db, name, stream.at)
        servers.end(server._process, signal.SIGINT)
        shared = stream.at
        twins: list[Mortal] = []
        try:
            for twin in ("a", "b"):
                folder = place / twin
                folder.mkdir()
                copy_files(server, folder)
                (folder / "data" / "standby.signal").touch()
                twins.append(Mortal(server.binaries, server.owner, folder, fsync="off"))
                with connected(twins[-1].dsn()) as db:
                    db.execute("select pg_promote(true, 60)")
            with connected(twins[0].dsn()) as db:
                publish_each(db, range(100, 140))
                # What both have is taken by both.
                assert drain(stream, db) == list(range(100, 140))
            with connected(twins[1].dsn()) as db:
                publish_each(db, range(200, 300))
                busy_with_others(db)
                stream.db = db
                go_back(stream)
                assert set(range(200, 300)) <= set(drain(stream, db))
                assert drain(Stream(db, "orders", start=shared), db) == list(range(200, 300))
        finally:
            for each in twins:
                each.end()


def publish_each(db: psycopg.Connection[Any], numbers: range) -> None:
    """A transaction for each."""
    for number in numbers:
        publish(db, "orders", number)


def test_way_back_to_the_old_primary_passes_over_nothing(place: Path) -> None:
    """A standby is promoted and given up; the old primary has gone on meanwhile."""
    with pair(place, synchronous=False) as both, connected(both.primary.dsn()) as db:
        db.execute("select penstock.create_topic('orders')")
        publish(db, "orders", *range(5))
        stream = Stream(db, "orders")
        drain(stream, db)
        await_replay(both)
        assert both.standby is not None
        with connected(both.standby.dsn()) as there:
            there.execute("select pg_promote(true, 60)")
            publish_each(there, range(100, 160))
            assert drain(stream, there) == list(range(100, 160))
        publish_each(db, range(200, 210))
        busy_with_others(db)
        publish_each(db, range(210, 220))
        stream.db = db
        go_back(stream)
        assert set(range(200, 220)) <= set(drain(stream, db))


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


def marks(db: psycopg.Connection[Any]) -> int:
    [(count,)] = db.execute("select count(*) from penstock_data.stream_marks").fetchall()
    found: int = count
    return found


def test_marks_are_few(db: psycopg.Connection[Any]) -> None:
    for _ in range(50):
        db.execute("select penstock.log_offset()")
    assert marks(db) == 20


def test_marks_stay_few_when_several_are_made_at_once(
    db: psycopg.Connection[Any], connect: Connect
) -> None:
    for _ in range(20):
        db.execute("select penstock.log_offset()")
    others = [connect(autocommit=False) for _ in range(8)]
    for turn in range(5):
        for other in others:
            other.execute("select penstock.log_offset()")
        for number, other in enumerate(others):
            # Some are rolled back, and with them what they removed comes back.
            other.rollback() if (number + turn) % 4 == 0 else other.commit()
    assert marks(db) == 20
