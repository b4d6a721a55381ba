"""Queues for Node.js, each a program of `node/` that speaks lines of JSON with us."""

from __future__ import annotations

import json
import shutil
import subprocess
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING

from bench.peers.library import Library, PublishingSession, place
from bench.peers.penstock_sql import queue_name
from bench.peers.processes import run_workers

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Sequence

    from bench.model import Case
    from bench.payloads import Payload
    from bench.peers.workers import Jobs
    from bench.server import Server

FOLDER = Path(__file__).parent / "node"
#: Seconds for a program to wind down.
PATIENCE = 15.0


def _words(program: str, role: str, dsn: str, jobs: Jobs | None = None) -> list[str]:
    at = place(dsn)
    words = [role, at["host"], at["user"], at["dbname"], queue_name(0)]
    pace = [str(jobs.concurrency), str(jobs.seconds * 1000)] if jobs else []
    return ["node", str(FOLDER / f"{program}.mjs"), *words, *pace]


class Session(PublishingSession):
    """A program that publishes what we write to it, and answers when that is committed."""

    def __init__(self, program: str, dsn: str) -> None:
        self._process = subprocess.Popen(
            _words(program, "publish", dsn), stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    def publish_batch(self, payloads: Sequence[Payload]) -> None:
        to, back = self._lines()
        to.write(json.dumps([payload.document for payload in payloads]).encode() + b"\n")
        to.flush()
        if back.readline() != b"done\n":
            raise RuntimeError("the program that publishes has ended")

    def close(self) -> None:
        self._lines()[0].close()
        self._process.wait(PATIENCE)

    def _lines(self) -> tuple[IO[bytes], IO[bytes]]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        return self._process.stdin, self._process.stdout


class NodePeer(Library):
    def __init__(self, program: str) -> None:
        self.name = program

    def unavailable(self, server: Server) -> str | None:  # noqa: ARG002
        if shutil.which("node") is None:
            return "there is no Node.js"
        if not (FOLDER / "node_modules" / self.name).is_dir():
            return "not installed; run: make bench"
        return None

    def install(self, server: Server, database: str) -> None:
        subprocess.run(_words(self.name, "install", server.dsn(database)), check=True)

    def open(self, dsn: str, case: Case) -> Session:  # noqa: ARG002
        return Session(self.name, dsn)


def work_words(program: str, dsn: str, jobs: Jobs) -> list[str]:
    return _words(program, "work", dsn, jobs)


async def serve(program: str, dsn: str, jobs: Jobs, stop: asyncio.Event) -> None:
    """Run the program's worker in a process of its own, until `stop` is set."""
    await run_workers(work_words(program, dsn, jobs), 1, jobs, stop)


pg_boss = partial(NodePeer, "pg-boss")
graphile_worker = partial(NodePeer, "graphile-worker")
serve_pg_boss = partial(serve, "pg-boss")
serve_graphile_worker = partial(serve, "graphile-worker")
