"""What watching costs: the server's CPU and connections while browsers watch a busy database.

    python -m bench.dashboard --seconds 60 --browsers 10

Publishers and consumers keep a private server busy, two queues hold a long backlog, and each
browser holds the live stream of a page open.  Printed: the share of one core that the dashboard's
sessions on the server used, and how many of them there were.  Exit code 1 beyond the target.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
import threading
import time
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import httpx
import psycopg
import uvicorn

from bench.measure import cpu_ns
from penstock import schema
from penstock.dashboard.app import build
from penstock.dashboard.dashboard_options import Options
from penstock.embedded import installation
from penstock.settings import Settings
from penstock.testing.server import running

if TYPE_CHECKING:
    from collections.abc import Iterator

TARGET = 0.02
TOPICS, QUEUES_EACH, BACKLOG = 5, 4, 50_000
SESSIONS = "select pid from pg_stat_activity where application_name = 'penstock dashboard'"
TOKEN = "operator-token-of-the-benchmark"


def fill(dsn: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as db:
        schema.install(db)
        for topic in range(TOPICS):
            for queue in range(QUEUES_EACH):
                db.execute(
                    "select penstock.create_queue(%s, %s)", (f"q-{topic}-{queue}", f"t-{topic}")
                )
        for name in ("deep-1", "deep-2"):
            db.execute("select penstock.create_queue(%s)", (name,))
            db.execute(
                "select count(*) from penstock.publish_messages(%s, "
                "array(select '1'::jsonb from generate_series(1, %s)))",
                (name, BACKLOG),
            )
        db.execute("analyze")


def traffic(dsn: str, topic: int, rate: float, ended: Any, counted: Any) -> None:
    """Publish in batches of ten at a pace, and consume with every queue of the topic."""
    pause = 10 / rate
    with psycopg.connect(dsn, autocommit=True) as db:
        while not ended.is_set():
            began = time.perf_counter()
            db.execute(
                "select penstock.publish_messages(%s, array_fill('{\"n\": 1}'::jsonb, array[10]))",
                (f"t-{topic}",),
            )
            for queue in range(QUEUES_EACH):
                name = f"q-{topic}-{queue}"
                rows = db.execute(
                    "select message_id from penstock.consume_messages_batch(%s, 'w', 30, 20)",
                    (name,),
                ).fetchall()
                if rows:
                    ids = [row[0] for row in rows]
                    db.execute("select penstock.ack_messages(%s, %s, 'w')", (name, ids))
                    counted.value += len(ids)
            time.sleep(max(0.0, pause - (time.perf_counter() - began)))


@contextmanager
def busy(dsn: str, rate: float) -> Iterator[Any]:
    """Traffic while the block runs; gives the count of messages done."""
    spawn = multiprocessing.get_context("spawn")
    ended, counts = spawn.Event(), [spawn.Value("q", 0) for _ in range(TOPICS)]
    workers = [
        spawn.Process(target=traffic, args=(dsn, topic, rate / TOPICS, ended, counts[topic]))
        for topic in range(TOPICS)
    ]
    for worker in workers:
        worker.start()
    try:
        yield lambda: sum(count.value for count in counts)
    finally:
        ended.set()
        for worker in workers:
            worker.join()


@contextmanager
def serving(dsn: str) -> Iterator[str]:
    app = build(Settings(dsn=dsn), Options(operator_token=TOKEN))
    server = uvicorn.Server(
        uvicorn.Config(app, port=0, log_level="error", timeout_graceful_shutdown=1)
    )
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    try:
        yield f"http://localhost:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(10)


def watch(address: str, page: str, ended: threading.Event, heard: list[int]) -> None:
    """One browser: log in, then read the live stream of a page."""
    with httpx.Client(base_url=address, timeout=30) as client:
        client.post("/login", data={"token": TOKEN}, headers={"Origin": address})
        with client.stream("GET", f"/events?{page}") as stream:
            for line in stream.iter_lines():
                heard[0] += line.startswith("event: regions")
                if ended.is_set():
                    return


def measure(db: psycopg.Connection[Any], seconds: float) -> dict[str, float]:
    """CPU of the dashboard's sessions over the time, and the most of them at once."""
    first = {pid: cpu_ns(pid) for (pid,) in db.execute(SESSIONS)}
    began, most, last = time.perf_counter(), 0, dict(first)
    while time.perf_counter() - began < seconds:
        pids = [pid for (pid,) in db.execute(SESSIONS)]
        most = max(most, len(pids))
        for pid in pids:
            last[pid] = cpu_ns(pid)
        time.sleep(0.5)
    used = sum(last[pid] - first.get(pid, 0) for pid in last)
    return {
        "share_of_one_core": used / 1e9 / (time.perf_counter() - began),
        "connections": most,
    }


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--seconds", type=float, default=60)
    options.add_argument("--browsers", type=int, default=10)
    options.add_argument("--rate", type=float, default=500, help="messages published per second")
    given = options.parse_args()
    pages = ["page=overview", "page=queue&name=q-0-0", "page=workers", "page=queue&name=deep-1"]
    with ExitStack() as stack:
        server = stack.enter_context(running("dashboard", installation.packaged()))
        server.administer("create database shop")
        dsn = server.dsn("shop")
        fill(dsn)
        db = stack.enter_context(psycopg.connect(dsn, autocommit=True))
        done = stack.enter_context(busy(dsn, given.rate))
        address = stack.enter_context(serving(dsn))
        ended, heard = threading.Event(), [0]
        watchers = [
            threading.Thread(target=watch, args=(address, pages[number % 4], ended, heard))
            for number in range(given.browsers)
        ]
        for each in watchers:
            each.start()
        time.sleep(5)
        before, at = done(), time.perf_counter()
        found = measure(db, given.seconds)
        found["messages_done_per_second"] = (done() - before) / (time.perf_counter() - at)
        found |= {"browsers": given.browsers, "updates": heard[0], "target": TARGET}
        ended.set()
        for each in watchers:
            each.join(10)
    print(json.dumps(found, indent=2))
    return int(found["share_of_one_core"] > TARGET or found["connections"] > 1)


if __name__ == "__main__":
    sys.exit(main())
