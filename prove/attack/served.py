"""`penstock sqs` as a process, as it is or under a sabotage.

python -m prove.attack.served SABOTAGE|- WORD…      runs `penstock WORD…`
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg

from penstock import schema
from penstock.sqs.auth import key_storage
from penstock.testing import server as servers
from prove.attack.sabotage import SABOTAGES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.sqs.auth.access_keys import AccessKey

ROOT = Path(__file__).resolve().parents[2]
DATABASE = "attacked"
_PATIENCE_SECONDS = 60


@dataclass(frozen=True, slots=True)
class Served:
    """A server that runs, and where its log is."""

    url: str
    process: subprocess.Popen[str]
    log: Path


@contextmanager
def database() -> Iterator[str]:
    """A database with an empty engine on a throw-away server; its DSN."""
    with servers.running("attacked", servers.any_binaries()) as server:
        server.administer(f"create database {DATABASE}")
        dsn = server.dsn(DATABASE)
        with psycopg.connect(dsn) as db:
            schema.install(db)
            # Attacks delete and make the same queue again and again.
            db.execute(
                "select pgqs.configure('recreate_wait', '0'), pgqs.configure('purge_wait', '0')"
            )
        yield dsn


@contextmanager
def sqs(
    dsn: str, folder: Path, keys: tuple[AccessKey, ...], sabotage: str = "-", *words: str
) -> Iterator[Served]:
    """Serve SQS on this database until the end of the block."""
    path = folder / "keys.toml"
    path.touch(mode=0o600)
    path.write_text("\n".join(key_storage.file_entry(key, None) for key in keys), encoding="utf-8")
    command = [sys.executable, "-m", "prove.attack.served", sabotage, "sqs", "--port", "0"]
    command += ["--json", "--dsn", dsn, "--keys", str(path), *words]
    log = folder / "sqs.txt"
    with (
        log.open("w", encoding="utf-8") as errors,
        subprocess.Popen(
            command, cwd=ROOT, stdout=subprocess.PIPE, stderr=errors, text=True
        ) as process,
    ):
        try:
            assert process.stdout is not None
            yield Served(json.loads(process.stdout.readline())["url"], process, log)
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(_PATIENCE_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()


if __name__ == "__main__":
    from penstock.cli import main

    chosen = sys.argv.pop(1)
    with SABOTAGES.get(chosen, nullcontext)():
        main()
