"""The embedded PostgreSQL itself: made once, started, stopped."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import quote

from penstock.embedded import diagnosis, folder, postmaster, sockets
from penstock.errors import EmbeddedServerStuck

if TYPE_CHECKING:
    from datetime import timedelta
    from pathlib import Path

    from penstock.embedded.account import Account
    from penstock.embedded.folder import Folder
    from penstock.embedded.locate import Binaries

# A new cluster takes 60 MB, and its first log file doubles soon.
_ROOM_FOR_CLUSTER = 128 * 1024 * 1024
_LARGEST_LOG = 8 * 1024 * 1024
_RETRY_SECONDS = 0.05

# fsync and synchronous_commit keep their defaults: what was published stays published.
_CONFIGURATION = {
    "listen_addresses": "",
    "port": str(sockets.PORT),
    "shared_buffers": "128MB",
    "max_connections": "200",
    "unix_socket_permissions": "0700",
    "logging_collector": "off",
    "log_destination": "stderr",
    "log_line_prefix": diagnosis.LOG_LINE_PREFIX,
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
        running = postmaster.read(self.place.cluster)
        if running is None:
            raise self._stuck("it has stopped again")
        return (
            f"postgresql://{postmaster.USER}@/{postmaster.DATABASE}"
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
        pid = postmaster.pid_in(self.place.cluster)
        if pid is None or not postmaster.is_alive(pid, self.place.cluster):
            return
        done = self._pg_ctl("stop", "--mode=fast")
        if done.returncode and postmaster.is_alive(pid, self.place.cluster):
            raise self._stuck("it does not stop")

    def _runs(self) -> bool:
        """Whether it answers; a server on its way up or down is waited for."""
        deadline = time.monotonic() + self.patience.total_seconds()
        while True:
            running = postmaster.read(self.place.cluster)
            if running and postmaster.answers(running):
                return True
            pid = postmaster.pid_in(self.place.cluster)
            if pid is None or not postmaster.is_alive(pid, self.place.cluster):
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
        initdb = ("initdb", f"--pgdata={target}", f"--username={postmaster.USER}", "--auth=trust")
        locale = ("--encoding=UTF8", "--locale=C", "--locale-provider=builtin")
        self._must(self._run(*initdb, *locale, "--builtin-locale=C.UTF-8", "--no-instructions"))
        # Done before the cluster has its final name, so that no folder lacks the database.
        single = ("postgres", "--single", "-D", str(target), "postgres")
        self._must(self._run(*single, typed=f"create database {postmaster.DATABASE};\n"))

    def _start(self) -> None:
        place = self.place
        socket_dir = sockets.choose(place, self.account)
        try:
            # No server of this folder lives, so these can only be in the way.
            (place.cluster / "postmaster.pid").unlink(missing_ok=True)
            sockets.clear(socket_dir)
            begin = self._open_log()
        except OSError as exc:
            raise folder.unusable(place, exc) from exc
        options = _options({**_CONFIGURATION, "unix_socket_directories": str(socket_dir)})
        done = self._pg_ctl("start", f"--log={place.log}", f"--options={options}")
        if done.returncode:
            raise self._failure(done.stdout, begin)

    def _failure(self, said: str, begin: int) -> Exception:
        pid = postmaster.pid_in(self.place.cluster)
        if pid is not None and postmaster.is_alive(pid, self.place.cluster):
            return self._stuck("it is still busy starting; try again")
        with self.place.log.open(encoding="utf-8", errors="replace") as log:
            log.seek(begin)
            return diagnosis.explain(self.place, said + log.read())

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
            raise diagnosis.explain(self.place, done.stdout)

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
            f"the embedded server in {self.place.root} is not at our service: {what}\n"
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
