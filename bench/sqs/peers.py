"""The servers that are measured: how each is installed, started and asked whether it is there.

Peers live in the user's cache folder, each Python one in an environment of its own.  One that
does not install or start is reported with the reason, and the others go on.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
import venv
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import platformdirs
import psutil

from bench.sqs.query import Query
from bench.sqs.wire import Credentials, Json
from penstock.testing.server import end, free_port

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from bench.sqs.wire import Protocol

_MOTO = Path(__file__).with_name("moto_server.py")
CACHE = platformdirs.user_cache_path("penstock") / "bench"
_START_SECONDS = 60.0
_UNSIGNED = Credentials("000000000000", None)


class Absent(Exception):
    """This server can't be measured here."""


@dataclass(frozen=True, slots=True)
class Peer:
    """One server: requirements, and the command for a port."""

    name: str
    about: str
    install: Callable[[Path, Sequence[str]], None]
    packages: tuple[str, ...]
    command: Callable[[Path, int], list[str]]
    environment: Callable[[int], dict[str, str]] = field(default=lambda _port: {})
    protocol: Callable[[str], Protocol] = field(default=lambda url: Json(url, _UNSIGNED))


@dataclass(frozen=True, slots=True)
class Started:
    """A server that answers."""

    name: str
    url: str
    protocol: Protocol
    process: psutil.Process
    database: psutil.Process | None = None
    """PostgreSQL, where there is one: its work counts too."""

    def cpu(self) -> tuple[float, float]:
        """Seconds of CPU of the server, and of its database."""
        return _family_cpu(self.process), _family_cpu(self.database)


def _family_cpu(process: psutil.Process | None) -> float:
    if process is None:
        return 0.0
    return sum(_cpu(each) for each in [process, *process.children(recursive=True)])


def _cpu(process: psutil.Process) -> float:
    try:
        times = process.cpu_times()
    except psutil.Error:
        return 0.0
    return float(times.user + times.system)


def _pip(folder: Path, packages: Sequence[str]) -> None:
    venv.create(folder, with_pip=True)
    _run([folder / "bin" / "python", "-m", "pip", "install", "-q", *packages], folder)


def _npm(folder: Path, packages: Sequence[str]) -> None:
    npm = shutil.which("npm")
    if npm is None:
        raise Absent("npm is not installed")
    (folder / "package.json").write_text("{}", encoding="utf-8")
    _run([npm, "install", "--no-audit", "--no-fund", "--silent", *packages], folder)


def _run(words: list[str | Path], folder: Path) -> None:
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Absent(f"can't be installed: {done.stderr.strip().splitlines()[-1:]}")


def _elasticmq(folder: Path, port: int) -> list[str]:
    java = shutil.which("java")
    if java is None:
        raise Absent("there is no Java for it")
    jar = next((folder / "node_modules" / "elasticmq").glob("*.jar"))
    # Of 2013: what it reaches into was open then.
    opened = [f"--add-opens=java.base/java.{each}=ALL-UNNAMED" for each in ("lang", "util.regex")]
    settings = [f"-Drest-sqs.bind-port={port}", "-Drest-sqs.bind-hostname=127.0.0.1"]
    seen = [f"-Dnode-address.port={port}", "-Dnode-address.host=127.0.0.1"]
    return [java, *opened, *settings, *seen, "-jar", str(jar)]


PEERS = (
    Peer(
        "moto",
        "in memory, on one thread",
        _pip,
        ("moto[server,sqs]", "waitress"),
        lambda folder, port: [str(folder / "bin" / "python"), str(_MOTO), str(port)],
    ),
    Peer(
        "localstack",
        "localstack-core, in memory",
        _pip,
        # Later ones want a newer Python or parts that are not on PyPI, and all want older parts.
        ("localstack-core[base-runtime]>=4.4,<4.10", "cbor2<6", "pyopenssl<25", "service-identity"),
        lambda folder, _port: [str(folder / "bin" / "python"), "-m", "localstack.runtime.main"],
        lambda port: {
            "GATEWAY_LISTEN": f"127.0.0.1:{port}",
            "SERVICES": "sqs",
            "DISABLE_EVENTS": "1",
            "SKIP_SSL_CERT_DOWNLOAD": "1",
        },
    ),
    Peer(
        "ministack",
        "in memory",
        _pip,
        ("ministack",),
        lambda folder, _port: [str(folder / "bin" / "ministack")],
        lambda port: {"GATEWAY_PORT": str(port), "SERVICES": "sqs", "LOG_LEVEL": "ERROR"},
    ),
    Peer(
        "fauxqs",
        "Node, in memory",
        _npm,
        ("fauxqs",),
        lambda folder, _port: [str(folder / "node_modules" / ".bin" / "fauxqs")],
        lambda port: {"FAUXQS_PORT": str(port), "FAUXQS_LOGGER": "false"},
    ),
    Peer(
        "elasticmq",
        "0.7.1 of 2013, the only one on npm; in memory, query protocol",
        _npm,
        ("elasticmq",),
        _elasticmq,
        protocol=Query,
    ),
)


@contextmanager
def started(peer: Peer) -> Iterator[Started]:
    """The peer, installed if need be, until the end of the block."""
    folder = CACHE / peer.name
    installed, wanted = folder / ".installed", "\n".join(peer.packages)
    if not installed.exists() or installed.read_text(encoding="utf-8") != wanted:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        peer.install(folder, peer.packages)
        installed.write_text(wanted, encoding="utf-8")
    port = free_port()
    environment = {**os.environ, **peer.environment(port)}
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            peer.command(folder, port),
            stdout=log,
            stderr=log,
            env=environment,
            cwd=folder,
            start_new_session=True,
        )
    try:
        await_port(process, port)
        url = f"http://127.0.0.1:{port}"
        yield Started(peer.name, url, peer.protocol(url), psutil.Process(process.pid))
    finally:
        end(process, signal.SIGTERM)


def await_port(process: subprocess.Popen[bytes], port: int) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise Absent("does not start: its log is in the cache folder")
