"""A private MariaDB: its own folder, socket and port, run by an unprivileged account.

PENSTOCK_TEST_MYSQL names a MySQL or MariaDB that runs already, to be used instead where a test
needs no server of its own: `mysql://root:secret@127.0.0.1:3306/`.
"""

from __future__ import annotations

import os
import pwd
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
from urllib.parse import unquote, urlsplit

import pymysql

from penstock.testing.server import end, folder_in_memory, free_port

if TYPE_CHECKING:
    from collections.abc import Iterator

_SEARCHED = f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin"
_ACCOUNTS = ("mysql", "nobody")
_START_SECONDS = 60
_ATTEMPTS = 3
_VARIABLE = "PENSTOCK_TEST_MYSQL"
_WORDS = (
    "--no-defaults",
    "--skip-name-resolve",
    "--bind-address=127.0.0.1",
    "--innodb-buffer-pool-size=128M",
    "--innodb-log-file-size=64M",
    "--max-connections=300",
    "--max-allowed-packet=64M",
    "--performance-schema=OFF",
)


class Missing(Exception):
    """There is no MariaDB on this machine; the text says how to get one."""


class NotStarted(AssertionError):
    """The server gave up; the text is the end of its log."""


def program(name: str) -> str:
    found = shutil.which(name, path=_SEARCHED)
    if found is None:
        raise Missing(f"{name} is not installed; tools/debian_packages.sh installs it as root")
    return found


def _account() -> dict[str, Any]:
    if os.geteuid() != 0:
        return {}
    for name in _ACCOUNTS:
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}
    raise Missing(f"root needs an account named {' or '.join(_ACCOUNTS)} to run MariaDB")


@dataclass(slots=True)
class MariaDB:
    """A server that can be killed and started again."""

    folder: Path
    options: tuple[str, ...]
    port: int = 0
    """Another one after each start."""
    process: subprocess.Popen[bytes] | None = None

    @property
    def socket(self) -> Path:
        return self.folder / "s"

    def dsn(self, database: str, *, tcp: bool = False) -> str:
        if tcp:
            return f"mysql://root@127.0.0.1:{self.port}/{database}"
        return f"mysql://root@localhost/{database}?unix_socket={self.socket}"

    def connect(self, database: str | None = None, **more: Any) -> pymysql.Connection[Any]:
        return pymysql.connect(
            unix_socket=str(self.socket),
            user="root",
            database=database,
            autocommit=True,
            charset="utf8mb4",
            **more,
        )

    def administer(self, *statements: str) -> None:
        connection = self.connect()
        try:
            with connection.cursor() as cursor:
                for statement in statements:
                    cursor.execute(statement)
        finally:
            connection.close()

    def start(self) -> None:
        """Start on a port that is free now; one that somebody else was faster to take is left."""
        for _ in range(_ATTEMPTS):
            self.port = free_port()
            self._spawn()
            if self._answers():
                return
            self.stop()
        raise NotStarted((self.folder / "log").read_text(errors="replace")[-4000:])

    def _spawn(self) -> None:
        command = [
            program("mariadbd"),
            *_WORDS,
            f"--datadir={self.folder / 'data'}",
            _own_temporary_files(self.folder),
            f"--socket={self.socket}",
            f"--port={self.port}",
            f"--pid-file={self.folder / 'pid'}",
            *self.options,
        ]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                start_new_session=True,
                **_account(),
            )

    def _answers(self) -> bool:
        """Whether it comes up: it listens before it serves, so it must have said something."""
        assert self.process is not None
        deadline = time.monotonic() + _START_SECONDS
        while time.monotonic() < deadline and self.process.poll() is None:
            if self._listens():
                self.connect(connect_timeout=_START_SECONDS).close()
                return True
            time.sleep(0.02)
        return False

    def _listens(self) -> bool:
        with socket.socket(socket.AF_UNIX) as probe:
            return probe.connect_ex(str(self.socket)) == 0

    def kill(self) -> None:
        """As a crash: nothing is said, nothing is written."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def stop(self) -> None:
        if self.process is not None:
            end(self.process, signal.SIGTERM)


@dataclass(frozen=True, slots=True)
class Outside:
    """A server that runs already, reached by TCP."""

    address: str

    @classmethod
    def given(cls) -> Outside | None:
        address = os.environ.get(_VARIABLE)
        return cls(address.rstrip("/")) if address else None

    @property
    def port(self) -> int:
        return urlsplit(self.address).port or 3306

    def dsn(self, database: str, *, tcp: bool = True) -> str:
        assert tcp, "it may run on another machine"
        return f"{self.address}/{database}"

    def connect(self, database: str | None = None, **more: Any) -> pymysql.Connection[Any]:
        parts = urlsplit(self.address)
        return pymysql.connect(
            host=parts.hostname or "127.0.0.1",
            port=self.port,
            user=unquote(parts.username or "root"),
            password=unquote(parts.password or ""),
            database=database,
            autocommit=True,
            charset="utf8mb4",
            **more,
        )

    def administer(self, *statements: str) -> None:
        connection = self.connect()
        try:
            with connection.cursor() as cursor:
                for statement in statements:
                    cursor.execute(statement)
        finally:
            connection.close()


@contextmanager
def running(*options: str) -> Iterator[MariaDB]:
    """A fresh server, gone with its data at the end."""
    program("mariadbd")
    account = _account()
    folder = Path(tempfile.mkdtemp(prefix="penstock-maria-", dir=folder_in_memory()))
    try:
        if account:
            os.chown(folder, account["user"], account["group"])
        folder.chmod(0o755)
        _install(folder, account)
        server = MariaDB(folder, options)
        try:
            server.start()
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _install(folder: Path, account: dict[str, Any]) -> None:
    done = subprocess.run(
        [
            program("mariadb-install-db"),
            "--no-defaults",
            f"--datadir={folder / 'data'}",
            _own_temporary_files(folder),
            "--auth-root-authentication-method=normal",
            "--skip-test-db",
            # Else it looks the machine's name up, and gives up when that fails.
            "--force",
            "--skip-name-resolve",
            "--innodb-log-file-size=64M",
        ],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        **account,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def _own_temporary_files(folder: Path) -> str:
    """A server that starts removes every temporary table in /tmp, and those of its neighbours too.

    Two that are set up at once would make each other fail.
    """
    return f"--tmpdir={folder}"
