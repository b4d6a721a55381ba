"""A primary and its standby, which take turns: the one dies, the other is promoted."""

from __future__ import annotations

import shutil
import subprocess
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import psycopg
from psycopg.conninfo import make_conninfo

from penstock.testing import server as servers
from prove.servers import DATABASE, Mortal
from tests.fixtures.proxy import Proxy, Way

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PATIENCE_SECONDS = 60
ANY_STANDBY = "*"
# A standby that lags is noticed and reconnected soon.
SETTINGS = {"wal_receiver_status_interval": "1s", "wal_retrieve_retry_interval": "200ms"}


class Pair:
    """Two places for servers; the link between them is a proxy that can be cut."""

    def __init__(self, primary: Mortal, other: Path, *, synchronous: bool) -> None:
        self.primary = primary
        self.standby: Mortal | None = None
        self._other = other
        self._other_port = servers.free_port()
        self._link: Proxy | None = None
        if synchronous:
            # In the cluster's own file, so that every copy of it insists on a standby too.
            with psycopg.connect(primary.dsn("postgres"), autocommit=True) as db:
                db.execute(f"alter system set synchronous_standby_names = '{ANY_STANDBY}'".encode())
                db.execute("select pg_reload_conf()")
        self.synchronous = synchronous

    @property
    def dsn(self) -> str:
        """Both places; whoever connects gets the one that takes writes."""
        return make_conninfo(
            host=f"{self.primary.folder},{self._other}",
            port=f"{self.primary.port},{self._other_port}",
            user=servers.USER,
            dbname=DATABASE,
            target_session_attrs="read-write",
            connect_timeout="2",
        )

    def follow(self) -> None:
        """Make a standby of the primary in the other place, and wait until it follows."""
        shutil.rmtree(self._other / "data", ignore_errors=True)
        self._copy()
        self._link = Proxy(self.primary.database).__enter__()
        settings = {**SETTINGS, "primary_conninfo": self._link.dsn}
        place = (self.primary.binaries, self.primary.owner, self._other)
        self.standby = Mortal(*place, port=self._other_port, **settings)
        self._await_following()

    def silence(self) -> None:
        """From now on nothing reaches the standby, and nobody is told."""
        assert self._link is not None
        self._link.swallowed = Way.BOTH

    def fail_over(self) -> None:
        """The primary dies; the standby takes its place, and the other place is free."""
        assert self.standby is not None
        self.primary.kill()
        self._unlink()
        dead, self.primary = self.primary, self.standby
        self.standby = None
        self._other, self._other_port = dead.folder, dead.port
        with psycopg.connect(self.primary.dsn("postgres"), autocommit=True) as db:
            db.execute("select pg_promote(true, 60)")

    def end(self) -> None:
        self._unlink()
        for server in (self.standby, self.primary):
            if server is not None:
                server.end()

    def _unlink(self) -> None:
        if self._link is not None:
            self._link.__exit__()
        self._link = None

    def _copy(self) -> None:
        primary = self.primary
        words = ["--pgdata", str(self._other / "data"), "--write-recovery-conf", "--no-sync"]
        words += ["--checkpoint=fast", "--wal-method=stream", "--username", servers.USER]
        subprocess.run(
            [
                primary.binaries.program("pg_basebackup"),
                "--host",
                str(primary.folder),
                "--port",
                str(primary.port),
                *words,
            ],
            check=True,
            capture_output=True,
            cwd=self._other,
            **primary.owner.process_options,
        )

    def _await_following(self) -> None:
        wanted = "sync" if self.synchronous else "async"
        deadline = time.monotonic() + PATIENCE_SECONDS
        with psycopg.connect(self.primary.dsn("postgres"), autocommit=True) as db:
            while True:
                rows = db.execute(
                    "select sync_state from pg_stat_replication "
                    "where state = 'streaming' and replay_lsn is not null"
                ).fetchall()
                if (wanted,) in rows:
                    return
                assert time.monotonic() < deadline, f"the standby does not follow: {rows}"
                time.sleep(0.05)


@contextmanager
def pair(folder: Path, *, synchronous: bool) -> Iterator[Pair]:
    """A primary with the engine, and a standby that follows it."""
    one, other = folder / "one", folder / "other"
    for place in (one, other):
        place.mkdir()
    binaries, owner, _ = servers.prepare(servers.any_binaries(), one)
    owner.own(other)
    primary = Mortal(binaries, owner, one, **SETTINGS)
    primary.install()
    found = Pair(primary, other, synchronous=synchronous)
    try:
        found.follow()
        yield found
    finally:
        found.end()
