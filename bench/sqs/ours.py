"""Penstock as it is in production: signatures checked, commits flushed, PostgreSQL of its own."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import psycopg

from bench.server import Server, running, usual
from bench.sqs.peers import Started, await_port
from bench.sqs.wire import Credentials, Json
from penstock import schema
from penstock.sqs.auth import key_storage
from penstock.sqs.auth.access_keys import AccessKey
from penstock.testing.server import end, free_port

if TYPE_CHECKING:
    from collections.abc import Iterator


KEY = AccessKey("AKIABENCH", secrets.token_urlsafe(30))


@contextmanager
def database() -> Iterator[Server]:
    """A PostgreSQL of its own with the engine installed."""
    with running(usual()) as server:
        server.autovacuum(on=True)
        with psycopg.connect(server.dsn("postgres")) as conn:
            schema.install(conn)
        yield server


@contextmanager
def penstock(processes: int = 1) -> Iterator[Started]:
    """The server, with its database, until the end of the block."""
    with database() as server, tempfile.TemporaryDirectory() as folder:
        dsn = server.dsn("postgres")
        path = Path(folder) / "keys.toml"
        path.touch(mode=0o600)
        path.write_text(key_storage.file_entry(KEY, None), encoding="utf-8")
        port = free_port()
        command = [sys.executable, "-m", "penstock.cli", "sqs", "--dsn", dsn, "--port", str(port)]
        process = subprocess.Popen(
            [*command, "--keys", str(path), "--processes", str(processes)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=os.environ,
            start_new_session=True,
        )
        try:
            await_port(process, port)
            name = "penstock" if processes == 1 else f"penstock x{processes}"
            url = f"http://127.0.0.1:{port}"
            yield Started(
                name,
                url,
                Json(url, Credentials(KEY.access_key, KEY.secret)),
                psutil.Process(process.pid),
                server.process,
            )
        finally:
            end(process, signal.SIGTERM)
