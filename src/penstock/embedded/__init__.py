"""A private PostgreSQL, for users who have no server at hand.

    with embedded.server() as server:
        psycopg.connect(server.dsn)

The first process to ask starts it, later ones share it, the last to leave stops it.  It listens on
a Unix socket that only its owner can reach, and its data stays in the user's data folder.

A process that is killed leaves no trace; if it was the last, the server idles until the next one
takes it over.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.embedded import account, cluster, folder, installation, server_lock
from penstock.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["Server", "server"]


@dataclass(frozen=True, slots=True)
class Server:
    """A running embedded server."""

    dsn: str
    folder: Path
    log: Path


@contextmanager
def server(data_dir: Path | None = None, *, settings: Settings | None = None) -> Iterator[Server]:
    """Start or join the embedded server of `data_dir`, and leave it at the end of the block."""
    # Before a folder is made: a missing package is reported first, and leaves no folder behind.
    installation.packaged()
    settings = settings or Settings.load()
    root = data_dir or settings.data_dir or account.default_data_dir()
    place = folder.Folder(root.absolute())
    folder.prepare(place)
    owner = account.of(place)
    postgres = cluster.Cluster(
        place, installation.usable(owner, place), owner, settings.start_timeout
    )
    with server_lock.share(place, settings.start_timeout, postgres.ensure_running, postgres.stop):
        yield Server(dsn=postgres.dsn(), folder=place.root, log=place.log)
