"""Copies of a server that take its place: by recovery, promotion, upgrade and logical replication.

Each is tried for real, with traffic before and after.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
import tempfile
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from psycopg.types.json import Jsonb

from penstock.testing import server as servers
from prove.servers import Mortal
from tests.docs.pages import ROOT, Page
from tests.fixtures.databases import Database
from tests.fixtures.patience import eventually_sync
from tests.fixtures.servers import available
from tests.sql.caller import Caller
from tests.sql.refusals import refused
from tests.sql.traffic import HOUR, QUEUES, Traffic

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.fixtures.cluster import Server

ROLES = ("publisher", "consumer", "monitor", "admin")
UPGRADE = Page(ROOT / "docs" / "operate" / "upgrade.md")


@contextmanager
def session(server: Mortal) -> Iterator[Caller]:
    with psycopg.connect(server.dsn(), autocommit=True) as conn:
        yield Caller(conn)


@contextmanager
def folder_like(server: Mortal) -> Iterator[Path]:
    """A folder where the owner of that server may keep another one."""
    folder = Path(tempfile.mkdtemp(prefix="penstock-test-", dir=servers.folder_in_memory()))
    server.owner.own(folder)
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def source(server: Server) -> Iterator[Mortal]:
    """A server that can be copied, with the engine."""
    with servers.cluster(server.binaries) as (binaries, owner, folder):
        archive = folder / "archive"
        archive.mkdir()
        owner.own(archive)
        found = Mortal(
            binaries,
            owner,
            folder,
            fsync="off",
            wal_level="logical",
            archive_mode="on",
            archive_command=f"cp %p {archive}/%f",
        )
        try:
            found.install()
            yield found
        finally:
            found.end()


def run_as_owner(server: Mortal, *command: str, cwd: Path) -> None:
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        cwd=cwd,
        **server.owner.process_options,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def copy_files(source: Mortal, folder: Path, *words: str) -> None:
    """A base backup."""
    place = ("--host", str(source.folder), "--port", str(source.port), "--username", servers.USER)
    words = ("--pgdata", str(folder / "data"), "--no-sync", "--checkpoint=fast", *words)
    run_as_owner(source, source.binaries.program("pg_basebackup"), *place, *words, cwd=folder)


@contextmanager
def running_copy(source: Mortal, folder: Path, **settings: str) -> Iterator[Mortal]:
    found = Mortal(source.binaries, source.owner, folder, fsync="off", **settings)
    try:
        yield found
    finally:
        found.end()


def prepare_a_message(server: Mortal, traffic: Traffic) -> None:
    """A message of a transaction that is prepared, and neither committed nor rolled back yet."""
    with session(server) as mq:
        mq.db.execute("begin")
        traffic.publish(mq, 1)
        mq.db.execute("prepare transaction 'message of a prepared transaction'")


def commit_the_prepared(mq: Caller) -> None:
    mq.db.execute("commit prepared 'message of a prepared transaction'")


def lose(mq: Caller, traffic: Traffic) -> None:
    """Traffic of which the copy never learns."""
    traffic.publish(mq, 20)
    traffic.consume(mq)
    traffic.look(mq)
    mq.rows("maintain")


def test_recovery_to_a_point_in_time_goes_on_from_that_point(source: Mortal) -> None:
    with folder_like(source) as folder, session(source) as mq:
        copy_files(source, folder)
        traffic = Traffic.begin(mq)
        prepare_a_message(source, traffic)
        saved = traffic.saved()
        mq.db.execute("select pg_create_restore_point('here')")
        lose(mq, traffic)
        archived = "select last_archived_wal from pg_stat_archiver"
        last = mq.value("select pg_walfile_name(pg_switch_wal())")
        eventually_sync(lambda: (mq.value(archived) or "") >= last)
        (folder / "data" / "recovery.signal").touch()
        with (
            running_copy(
                source,
                folder,
                restore_command=f"cp {source.folder}/archive/%f %p",
                recovery_target_name="here",
                recovery_target_action="promote",
            ) as copy,
            session(copy) as there,
        ):
            eventually_sync(lambda: not there.value("select pg_is_in_recovery()"))
            commit_the_prepared(there)
            saved.finish(there, rebased=False)


def test_standby_that_lost_the_tail_goes_on_where_it_stood(source: Mortal) -> None:
    with folder_like(source) as folder, session(source) as mq:
        copy_files(source, folder, "--write-recovery-conf")
        (folder / "data" / "standby.signal").touch()
        with running_copy(source, folder) as standby:
            traffic = Traffic.begin(mq)
            prepare_a_message(source, traffic)
            saved = traffic.saved()
            with session(standby) as there:
                reached = mq.value("select pg_current_wal_lsn()")
                behind = "select pg_last_wal_replay_lsn() >= %s::pg_lsn"
                eventually_sync(lambda: there.value(behind, str(reached)))
                assert there.statistics("plain").dead_count == 1
                there.db.execute("alter system set primary_conninfo = ''")
                there.db.execute("select pg_reload_conf()")
                eventually_sync(
                    lambda: there.value("select count(*) = 0 from pg_stat_wal_receiver")
                )
                lose(mq, traffic)
                source.kill()
                there.db.execute("select pg_promote(true, 60)")
                # This very session looked on while it was a standby; it goes on as well.
                commit_the_prepared(there)
                saved.finish(there, rebased=False)


def test_crash_loses_nothing_but_what_was_staged(source: Mortal) -> None:
    with session(source) as mq:
        traffic = Traffic.begin(mq)
        prepare_a_message(source, traffic)
        mq("start_waiting", "unread", 60)
        stage, part, _ = mq.rows("open_part", "load", 1)[0]
        mq.db.execute(
            f"insert into {stage} (part, topic, payload) values ({part}, 't', '1')".encode()
        )
    source.kill()
    source.start()
    with session(source) as mq:
        assert mq.value("select count(*) from penstock_data.waiting") == 0
        with refused("PS017"):
            mq("commit_write", "load", 1, [part], [1])
        commit_the_prepared(mq)
        traffic.finish(mq, rebased=False)


def _upgrades() -> list[Any]:
    found = sorted(available().values(), key=lambda each: each.major)
    return [pytest.param(found[0], found[-1], id=f"{found[0].major} to {found[-1].major}")]


@pytest.mark.parametrize(("older", "newer"), _upgrades())
def test_pg_upgrade_needs_nothing(older: Any, newer: Any) -> None:
    if not (newer.bin / "pg_upgrade").is_file():
        pytest.skip("this PostgreSQL has no pg_upgrade")
    with servers.cluster(older) as place, servers.cluster(newer) as new_place:
        old = Mortal(*place, fsync="off")
        try:
            # Transaction ids have an epoch too, which must come along.
            _end_well(old)
            for program, *words in (["pg_resetwal", "--epoch=7"], *_alike(older, newer)):
                data = str(old.folder / "data")
                run_as_owner(old, old.binaries.program(program), *words, data, cwd=old.folder)
            old.start()
            old.install()
            with session(old) as mq:
                identifier = mq.value("select system_identifier from pg_control_system()")
                traffic = Traffic.begin(mq)
                assert mq.value("select pg_current_xact_id()::text::bigint") >> 32 == 7
            _end_well(old)
        finally:
            old.end()
        binaries, owner, folder = new_place
        run_as_owner(
            old,
            binaries.program("pg_upgrade"),
            *("--old-bindir", str(old.binaries.bin), "--new-bindir", str(binaries.bin)),
            *("--old-datadir", str(old.folder / "data"), "--new-datadir", str(folder / "data")),
            *("--username", servers.USER, "--socketdir", str(folder)),
            cwd=folder,
        )
        new = Mortal(binaries, owner, folder, fsync="off")
        try:
            with session(new) as there:
                assert (
                    there.value("select system_identifier from pg_control_system()") != identifier
                )
                for table in ("incarnation", "origin", "settings"):
                    there.db.execute(f"vacuum (freeze) penstock_data.{table}".encode())
                traffic.finish(there, rebased=False)
        finally:
            new.end()


def _alike(older: Any, newer: Any) -> list[list[str]]:
    # Clusters of 18 have checksums unless told otherwise, those before have not.
    return [["pg_checksums", "--enable", "--no-sync"]] if older.major < 18 <= newer.major else []


def _end_well(server: Mortal) -> None:
    """With a checkpoint, as programs want it that work on the files."""
    servers.end(server._process, signal.SIGINT)


def leave_a_straggler(mq: Caller) -> int:
    """Of a closed segment all messages are done but one, which is claimed."""
    mq("create_queue", "early", "early")
    mq("configure", "segment_bytes", "1")
    mq.publish_many("early", list(range(10)))
    straggler: int = mq.consume("early", 1, vt=HOUR)[0].message_id
    mq.drain("early")
    mq.rows("maintain")
    return straggler


def documented(*words: str) -> str:
    """The SQL block of the page that holds these words."""
    (found,) = [
        text
        for block in UPGRADE.blocks("sql")
        if all(word in (text := "\n".join(block.lines)) for word in words)
    ]
    return found


@pytest.fixture
def copy(second_server: Server) -> Database:
    """An empty database of another cluster, with the roles."""
    second_server.administer(*(f"create role penstock_{role}" for role in ROLES))
    second_server.administer("create database copy")
    return Database(second_server, "copy")


def follow(source: Mortal, copy: Database, there: Caller) -> None:
    """The documented steps up to the moment when the copy follows."""
    (source.folder / "publish.sql").write_text(documented("create publication"), encoding="utf-8")
    source.database.psql("-f", str(source.folder / "publish.sql"))
    program = source.binaries.program
    words = ("--schema-only", "--no-publications", "-d", source.dsn())
    dumped = subprocess.run([program("pg_dump"), *words], capture_output=True, check=True)
    loaded = subprocess.run(
        [program("psql"), "-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", copy.dsn],
        input=dumped.stdout,
        capture_output=True,
        check=False,
    )
    assert loaded.returncode == 0, loaded.stderr
    subscribe = documented("create subscription")
    there.db.execute(subscribe.replace("host=old dbname=shop", source.dsn()).encode())
    eventually_sync(lambda: there.value(documented("srsubstate")))


def take_over(mq: Caller, there: Caller) -> None:
    """The documented steps after all clients have stopped."""
    eventually_sync(lambda: mq.value(documented("confirmed_flush_lsn")))
    with refused("PS010", "another cluster"):
        there.publish("t")
    with refused("PS005", "subscription"):
        there("rebase")
    for statement in documented("drop subscription").split(";\n"):
        there.db.execute(statement.encode())


def test_logical_replication_as_documented_loses_nothing(source: Mortal, copy: Database) -> None:
    with session(source) as mq, psycopg.connect(copy.dsn, autocommit=True) as conn:
        there = Caller(conn)
        straggler = leave_a_straggler(mq)
        traffic = Traffic.begin(mq)
        follow(source, copy, there)
        traffic.publish(mq, 40)
        traffic.consume(mq)
        traffic.look(mq)
        # The segment is emptied on both sides, its straggler moved.
        mq.rows("maintain")
        take_over(mq, there)
        assert there.value("select count(*) from penstock_data.messages_1") == 0
        assert there.ack("early", straggler)
        traffic.finish(there, rebased=True)


@pytest.mark.prove
def test_logical_replication_under_load_loses_nothing(source: Mortal, copy: Database) -> None:
    queues = ("plain", "lanes", "turns", "some", "unread", "unread lanes")
    stopped = threading.Event()

    def publish(first: int) -> list[int]:
        with session(source) as mq:
            for number in range(first, first + 5_000, 10):
                numbers = list(range(number, number + 10))
                keys = [f"key {each % 50}" for each in numbers]
                mq.publish_many("t", numbers, keys=keys, headers=[Jsonb({"even": True})])
        return list(range(first, first + 5_000))

    def consume(queue: str) -> list[int]:
        finished: list[int] = []
        with session(source) as mq:
            while not stopped.is_set():
                rows = mq.consume(queue, 50)
                mq.column("ack_messages", queue, [row.message_id for row in rows], "me")
                finished += [row.payload for row in rows]
        return finished

    with (
        session(source) as mq,
        psycopg.connect(copy.dsn, autocommit=True) as conn,
        ThreadPoolExecutor() as pool,
    ):
        there = Caller(conn)
        for queue in queues:
            mq("create_queue", queue, "t", **QUEUES[queue])
        publishers = [pool.submit(publish, first) for first in (0, 100_000)]
        consumers = {queue: pool.submit(consume, queue) for queue in queues[:4]}
        try:
            follow(source, copy, there)
            published = [number for each in publishers for number in each.result()]
        finally:
            stopped.set()
        finished = {queue: each.result() for queue, each in consumers.items()}
        take_over(mq, there)
        for queue in queues:
            found = Counter(finished.get(queue, []) + there.drain(queue))
            assert found == Counter(published), queue
