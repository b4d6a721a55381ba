"""A server of its own that keeps its promises to the disk, and can be killed."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import psycopg

from penstock import schema
from penstock.testing import server as servers
from prove import slices
from prove.processes import kill_family
from tests.fixtures.databases import Database

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from penstock.embedded.account import Account
    from penstock.embedded.installation import Binaries

DATABASE = "faults"
# What a test server saves itself, this one does.
_CAREFUL = {"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on"}


class Mortal:
    def __init__(
        self,
        binaries: Binaries,
        owner: Account,
        folder: Path,
        *,
        port: int | None = None,
        **settings: str,
    ) -> None:
        self.binaries = binaries
        self.owner = owner
        self.folder = folder
        self.settings = {**_CAREFUL, **settings}
        self._process, self.port = servers.start(
            binaries, owner, folder, settings=self.settings, port=port
        )

    @property
    def database(self) -> Database:
        """The database with the engine."""
        pid = self._process.pid
        server = servers.Server("mortal", self.binaries, self.folder, self.port, pid)
        return Database(server, DATABASE)

    def dsn(self, database: str = DATABASE) -> str:
        return self.database.server.dsn(database)

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def kill(self) -> None:
        """SIGKILL for every process of it at once, as when the power of its container goes."""
        kill_family(self._process)

    def start(self) -> None:
        self._process, self.port = servers.start(
            self.binaries, self.owner, self.folder, settings=self.settings, port=self.port
        )

    def end(self) -> None:
        servers.end(self._process)

    def install(self) -> None:
        """Make the database and put the engine into it."""
        with psycopg.connect(self.dsn("postgres"), autocommit=True) as db:
            db.execute(f"create database {DATABASE}".encode())
        with psycopg.connect(self.dsn()) as db:
            schema.install(db)
        with psycopg.connect(self.dsn(), autocommit=True) as db:
            # The engine itself is not at stake, however careless the server.
            db.execute("checkpoint")


@contextmanager
def mortal(**settings: str) -> Iterator[Mortal]:
    """A server with an empty engine, where test servers keep their data."""
    with servers.cluster(servers.any_binaries()) as place, running(place, **settings) as server:
        yield server


@contextmanager
def mortal_in(folder: Path, **settings: str) -> Iterator[Mortal]:
    """A server with an empty engine in that very folder, which stays as it is left."""
    place = servers.prepare(servers.any_binaries(), folder)
    with running(place, **settings) as server:
        yield server


@contextmanager
def running(place: tuple[Binaries, Account, Path], **settings: str) -> Iterator[Mortal]:
    server = Mortal(*place, **settings)
    try:
        server.install()
        yield server
    finally:
        server.end()


def terminate_backends(db: psycopg.Connection[Any]) -> int:
    """Cut off the other sessions on this database, but those of the programme itself."""
    found = db.execute(
        "select count(pg_terminate_backend(pid)) from pg_stat_activity "
        "where datname = current_database() and pid <> pg_backend_pid() "
        "and application_name <> %s",
        (slices.NAME,),
    ).fetchone()
    assert found is not None
    count: int = found[0]
    return count
