"""The embedded PostgreSQL itself: made once, started, stopped; its socket, and why it failed."""

from __future__ import annotations

import errno
import hashlib
import os
import re
import shlex
import shutil
import stat
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import psutil
from psycopg import pq
from psycopg.conninfo import make_conninfo

from penstock.embedded import folder
from penstock.errors import (
    EmbeddedServerError,
    EmbeddedServerStuck,
    FolderBusy,
    FolderForbidden,
    SocketPathTooLong,
)

if TYPE_CHECKING:
    from datetime import timedelta

    from penstock.embedded.account import Account
    from penstock.embedded.folder import Folder
    from penstock.embedded.installation import Binaries

# A new cluster takes 60 MB, and its first log file doubles soon.
_ROOM_FOR_CLUSTER = 128 * 1024 * 1024
_LARGEST_LOG = 8 * 1024 * 1024
_RETRY_SECONDS = 0.05

USER = DATABASE = "penstock"
PORT = 5432
# The smallest limit among the systems that have wheels (macOS), less the final zero.
LONGEST_SOCKET_PATH = 103

# With the SQLSTATE in every line there is no need to understand the text.
_LOG_LINE_PREFIX = "%m [%p] %e "
_LINE = re.compile(r"\[\d+\] (?P<code>[0-9A-Z]{5}) (?P<level>FATAL|PANIC): +(?P<text>.*)")
_NO_SPACE = os.strerror(errno.ENOSPC)

# fsync and synchronous_commit keep their defaults: what was published stays published.
_CONFIGURATION = {
    "listen_addresses": "",
    "port": str(PORT),
    "shared_buffers": "128MB",
    "max_connections": "200",
    "unix_socket_permissions": "0700",
    "logging_collector": "off",
    "log_destination": "stderr",
    "log_line_prefix": _LOG_LINE_PREFIX,
    "lc_messages": "C",
}


@dataclass(frozen=True, slots=True)
class Cluster:
    """One data folder and the programs that serve it."""

    place: Folder
    binaries: Binaries
    account: Account
    patience: timedelta

    def dsn(self) -> str:
        """Where the running server can be reached."""
        running = read_postmaster(self.place.cluster)
        if running is None:
            raise self._stuck("it has stopped again")
        return (
            f"postgresql://{USER}@/{DATABASE}"
            f"?host={quote(str(running.socket_dir), safe='/')}&port={running.port}"
        )

    def ensure_running(self) -> None:
        """Make the cluster if there is none, start it unless it runs."""
        if not self.place.cluster.exists():
            self._create()
        folder.inspect(self.place, self.binaries.major)
        folder.require_owner(self.place, self.account.uid)
        if not self._runs():
            self._start()

    def stop(self) -> None:
        """Stop the server; sessions that are still open are ended, nothing committed is lost."""
        pid = postmaster_pid(self.place.cluster)
        if pid is None or not is_alive(pid, self.place.cluster):
            return
        done = self._pg_ctl("stop", "--mode=fast")
        if done.returncode and is_alive(pid, self.place.cluster):
            raise self._stuck("it does not stop")

    def _runs(self) -> bool:
        """Whether it answers; a server on its way up or down is waited for."""
        deadline = time.monotonic() + self.patience.total_seconds()
        while True:
            running = read_postmaster(self.place.cluster)
            if running and _answers(running):
                return True
            pid = postmaster_pid(self.place.cluster)
            if pid is None or not is_alive(pid, self.place.cluster):
                return False
            if time.monotonic() > deadline:
                raise self._stuck(f"process {pid} runs but does not answer")
            time.sleep(_RETRY_SECONDS)

    def _create(self) -> None:
        place = self.place
        if shutil.disk_usage(place.root).free < _ROOM_FOR_CLUSTER:
            raise folder.full(place)
        try:
            shutil.rmtree(place.fresh_cluster, ignore_errors=True)
            place.fresh_cluster.mkdir(mode=0o700)
            self.account.own(place.fresh_cluster)
            self._initialise(place.fresh_cluster)
            place.fresh_cluster.rename(place.cluster)
        except OSError as exc:
            raise folder.unusable(place, exc) from exc
        finally:
            shutil.rmtree(place.fresh_cluster, ignore_errors=True)

    def _initialise(self, target: Path) -> None:
        # The built-in locale sorts alike on every machine, whatever its C library.
        initdb = ("initdb", f"--pgdata={target}", f"--username={USER}", "--auth=trust")
        locale = ("--encoding=UTF8", "--locale=C", "--locale-provider=builtin")
        self._must(self._run(*initdb, *locale, "--builtin-locale=C.UTF-8", "--no-instructions"))
        # Done before the cluster has its final name, so that no folder lacks the database.
        single = ("postgres", "--single", "-D", str(target), "postgres")
        self._must(self._run(*single, typed=f"create database {DATABASE};\n"))

    def _start(self) -> None:
        place = self.place
        socket_dir = socket_folder(place, self.account)
        try:
            # No server of this folder runs, so these are left over.
            (place.cluster / "postmaster.pid").unlink(missing_ok=True)
            clear_sockets(socket_dir)
            begin = self._open_log()
        except OSError as exc:
            raise folder.unusable(place, exc) from exc
        options = _options({**_CONFIGURATION, "unix_socket_directories": str(socket_dir)})
        done = self._pg_ctl("start", f"--log={place.log}", f"--options={options}")
        if done.returncode:
            raise self._failure(done.stdout, begin)

    def _failure(self, said: str, begin: int) -> Exception:
        pid = postmaster_pid(self.place.cluster)
        if pid is not None and is_alive(pid, self.place.cluster):
            return self._stuck("it is still busy starting; try again")
        with self.place.log.open(encoding="utf-8", errors="replace") as log:
            log.seek(begin)
            return explain(self.place, said + log.read())

    def _open_log(self) -> int:
        """Make the log ready for the server's account; the position where it goes on."""
        log = self.place.log
        if log.exists() and log.stat().st_size > _LARGEST_LOG:
            log.replace(log.with_suffix(".log.old"))
        log.touch(mode=0o600)
        self.account.own(log)
        return log.stat().st_size

    def _must(self, done: subprocess.CompletedProcess[str]) -> None:
        if done.returncode:
            raise explain(self.place, done.stdout)

    def _pg_ctl(self, *words: str) -> subprocess.CompletedProcess[str]:
        seconds = max(1, round(self.patience.total_seconds()))
        where = (f"--pgdata={self.place.cluster}", "--wait", f"--timeout={seconds}", "--silent")
        return self._run("pg_ctl", *words, *where)

    def _run(self, program: str, *words: str, typed: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self.binaries.program(program), *words],
            input=typed,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            check=False,
            cwd=self.place.root,
            env=_environment(),
            **self.account.process_options,
        )

    def _stuck(self, what: str) -> EmbeddedServerStuck:
        return EmbeddedServerStuck(
            f"the embedded server in {self.place.root} can't be used: {what}\n"
            f"Its log is {self.place.log}.",
            folder=self.place.root,
        )


def _environment() -> dict[str, str]:
    # PGDATA, PGPORT and the like of the user's other servers must not reach this one.
    ours = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
    return {**ours, "LC_ALL": "C"}


def _options(configuration: dict[str, str]) -> str:
    return shlex.join(
        word for name, value in configuration.items() for word in ("-c", f"{name}={value}")
    )


# The content of `postmaster.pid`, and whether that server runs.


@dataclass(frozen=True, slots=True)
class Postmaster:
    """A server as its pid file describes it."""

    pid: int
    port: int
    socket_dir: Path


def read_postmaster(cluster: Path) -> Postmaster | None:
    """The server that the pid file describes; None without a complete file."""
    try:
        lines = (cluster / "postmaster.pid").read_text(encoding="utf-8").splitlines()
    except (FileNotFoundError, UnicodeDecodeError):
        return None
    # 1 pid, 2 data directory, 3 start time, 4 port, 5 socket directory, then what we don't need.
    match lines:
        case [pid, _, _, port, socket_dir, *_] if pid.isdigit() and port.isdigit() and socket_dir:
            return Postmaster(int(pid), int(port), Path(socket_dir))
        case _:
            return None


def postmaster_pid(cluster: Path) -> int | None:
    """The pid alone, which the file has from its first moment on."""
    try:
        first = (cluster / "postmaster.pid").read_text(encoding="utf-8").partition("\n")[0].strip()
    except (FileNotFoundError, UnicodeDecodeError):
        return None
    return int(first) if first.isdigit() else None


def is_alive(pid: int, cluster: Path) -> bool:
    """Whether that process is the server of this very cluster, and not a later user of its pid."""
    try:
        process = psutil.Process(pid)
        # A postmaster works inside its data directory.
        at_home = Path(process.cwd()) == cluster.resolve()
        return at_home and process.status() != psutil.STATUS_ZOMBIE
    except (psutil.Error, FileNotFoundError):
        return False


def _answers(postmaster: Postmaster) -> bool:
    """Whether the server takes connections now."""
    return pq.PGconn.ping(_conninfo(postmaster).encode()) == pq.Ping.OK


def _conninfo(postmaster: Postmaster) -> str:
    """A DSN of the server for libpq, with a short timeout."""
    return make_conninfo(
        host=str(postmaster.socket_dir),
        port=postmaster.port,
        user=USER,
        dbname=DATABASE,
        connect_timeout=5,
    )


# A folder for the server's Unix socket: short enough, and closed to other accounts.


def socket_folder(place: Folder, account: Account) -> Path:
    """The folder itself if its path is short enough, else one in a folder for temporary files."""
    for candidate in _socket_folders(place, account):
        if _fits(candidate):
            _make_private(candidate, place, account)
            return candidate
    raise SocketPathTooLong(
        f"the path of {place.root} is too long for a Unix socket, and so is that of the folder for "
        "temporary files: choose a shorter folder with PENSTOCK_DATA_DIR or TMPDIR",
        folder=place.root,
    )


def _socket_folders(place: Folder, account: Account) -> tuple[Path, ...]:
    digest = hashlib.sha256(os.fsencode(place.root.resolve())).hexdigest()[:16]
    name = f"penstock-{account.uid}-{digest}"
    return (place.run.absolute(), Path(tempfile.gettempdir()) / name, Path("/tmp") / name)  # noqa: S108


def _fits(candidate: Path) -> bool:
    return len(os.fsencode(candidate / f".s.PGSQL.{PORT}.lock")) <= LONGEST_SOCKET_PATH


def _make_private(candidate: Path, place: Folder, account: Account) -> None:
    try:
        candidate.mkdir(mode=0o700, exist_ok=True)
        if candidate.lstat().st_uid == os.geteuid():
            account.own(candidate)
    except OSError as exc:
        raise folder.unusable(place, exc) from exc
    _require_private(candidate, account, place)


def _require_private(candidate: Path, account: Account, place: Folder) -> None:
    # If another user owned the folder, or it were a link, they could answer for the server.
    found = candidate.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != account.uid:
        raise FolderBusy(f"{candidate} is in the way: remove it", folder=place.root)
    if stat.S_IMODE(found.st_mode) & 0o077:
        candidate.chmod(0o700)


def clear_sockets(place: Path) -> None:
    """Remove what a server that is gone left behind."""
    for name in (f".s.PGSQL.{PORT}", f".s.PGSQL.{PORT}.lock"):
        (place / name).unlink(missing_ok=True)


# Why PostgreSQL did not start, found in what it wrote.


def explain(place: Folder, written: str) -> EmbeddedServerError:
    """The error for a server that wrote this and did not come up."""
    last = next(reversed(list(_LINE.finditer(written))), None)
    if _NO_SPACE in written or (last and last["code"] == "53100"):
        return folder.full(place)
    if last is None:
        return _unexplained(place, written)
    match last["code"]:
        case "F0001":
            return _busy(place, last["text"])
        case "42501":
            return _forbidden(place, last["text"])
        case "55000" | "XX000" | "XX001" | "XX002" | "58P01" | "58030":
            return folder.damaged(place, last["text"])
        case _:
            return _unexplained(place, written)


def _busy(place: Folder, text: str) -> FolderBusy:
    return FolderBusy(
        f"another server seems to use {place.cluster}: {text}\n"
        "Stop it, or choose another folder with PENSTOCK_DATA_DIR.",
        folder=place.root,
    )


def _forbidden(place: Folder, text: str) -> FolderForbidden:
    return FolderForbidden(
        f"PostgreSQL may not use the folder {place.cluster}: {text}\n"
        "Everything in it must belong to the account that runs the server.",
        folder=place.root,
    )


def _unexplained(place: Folder, written: str) -> EmbeddedServerError:
    tail = "\n".join(written.strip().splitlines()[-5:])
    return EmbeddedServerError(
        f"the embedded PostgreSQL did not start; its log is {place.log}\n{tail}", folder=place.root
    )
