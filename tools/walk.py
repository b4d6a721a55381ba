"""Print the files of src/penstock that an operation walks through, in order.

    python tools/walk.py                      all walks
    python tools/walk.py consume --calls      one of them, with every function
    python tools/walk.py --json               for programs

A walk begins when everything is open and warm, so that imports, connecting and preparing
statements don't count.  Files are those whose functions are called, in the order of the first call;
the number is that of calls.  Generated files (`_sync`) count as any other.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT)]
PACKAGE = ROOT / "src" / "penstock"

import penstock  # noqa: E402
from penstock import tasks  # noqa: E402
from penstock.testing import server  # noqa: E402
from penstock.testing.databases import Databases  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from types import FrameType

#: The most files that a walk should take; `--check` fails when one takes more.
GOALS: Mapping[str, int] = {"publish": 9, "consume": 14}
_WARM = 3
_PATIENCE_SECONDS = 60.0


@dataclass(slots=True)
class Walk:
    """Which functions were called, in the order of their first calls."""

    calls: Counter[tuple[str, str]] = field(default_factory=Counter)
    noting: bool = False

    def files(self) -> dict[str, int]:
        """Calls by file, in the order of the first call."""
        found: Counter[str] = Counter()
        for (file, _), count in self.calls.items():
            found[file] += count
        return dict(found)

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Watch this thread and those that it starts."""
        threading.setprofile(self._note)
        sys.setprofile(self._note)
        try:
            yield
        finally:
            sys.setprofile(None)
            threading.setprofile(None)

    @contextmanager
    def noted(self) -> Iterator[None]:
        """Note every call of a function of the package meanwhile."""
        self.noting = True
        try:
            yield
        finally:
            self.noting = False

    def _note(self, frame: FrameType, event: str, _: object) -> None:
        if not self.noting or event != "call":
            return
        path = Path(frame.f_code.co_filename)
        if path.is_relative_to(PACKAGE):
            file = path.relative_to(PACKAGE).as_posix()
            self.calls[file, frame.f_code.co_qualname] += 1


def publish(dsn: str, walk: Walk) -> None:
    """`mq.publish()` of one message."""

    async def main() -> None:
        async with penstock.connect(dsn) as mq:
            await mq.create_queue("billing", topic="orders")
            for number in range(_WARM):
                await mq.publish("orders", {"order": number})
            with walk.noted():
                await mq.publish("orders", {"order": 7})

    asyncio.run(main())


def consume(dsn: str, walk: Walk) -> None:
    """A waiting worker is woken, claims a message, calls its handler and acks."""

    async def main() -> None:
        async with penstock.connect(dsn) as mq:
            await mq.create_queue("billing", topic="orders")
            worker = penstock.Worker(mq)

            @worker.handler("billing")
            async def bill(_message: Any) -> None:
                """Do nothing."""

            running = asyncio.ensure_future(worker.run(signals=False))
            for _ in range(_WARM):
                await asyncio.to_thread(_one_message_is_acked, dsn)
                # Until it waits again.
                await asyncio.sleep(0.3)
            with walk.noted():
                await asyncio.to_thread(_one_message_is_acked, dsn)
            worker.ask_to_stop()
            await running

    asyncio.run(main())


def _one_message_is_acked(dsn: str) -> None:
    """Publish by SQL, and wait until the worker has acked: nothing of this is Penstock's Python."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    with psycopg.connect(dsn, autocommit=True) as db:
        sent = db.execute("""select penstock.publish_message('orders', '{"order": 7}')""")
        message = sent.fetchone()
        while time.monotonic() < deadline:
            state = db.execute("select penstock.message_state('billing', %s)", message).fetchone()
            if state == ("done",):
                return
            time.sleep(0.01)
    raise TimeoutError("the worker has not acked the message")


def sqs_send(dsn: str, walk: Walk) -> None:
    """A signed SendMessage of boto3, from the socket to the answer."""
    from tests.sqs.running import running  # noqa: PLC0415

    with tempfile.TemporaryDirectory() as folder, running(dsn, Path(folder)) as server:
        client = server.boto3()
        url = client.create_queue(QueueName="billing")["QueueUrl"]
        for _ in range(_WARM):
            client.send_message(QueueUrl=url, MessageBody="order 7")
        with walk.noted():
            client.send_message(QueueUrl=url, MessageBody="order 7")
        client.close()


def task_enqueue(dsn: str, walk: Walk) -> None:
    """`queue.enqueue()` of one task, on PostgreSQL."""

    async def main() -> None:
        maker = tasks.connect(dsn)
        await maker.store.create_tables()
        await maker.store.close()
        async with tasks.connect(dsn) as queue:
            for number in range(_WARM):
                await queue.enqueue("mail", {"to": number})
            with walk.noted():
                await queue.enqueue("mail", {"to": "ada"})

    asyncio.run(main())


WALKS: Mapping[str, Callable[[str, Walk], None]] = {
    "publish": publish,
    "consume": consume,
    "sqs-send": sqs_send,
    "task-enqueue": task_enqueue,
}


def walked(names: Sequence[str]) -> dict[str, Walk]:
    """Walk on a PostgreSQL of our own, each walk in a database of its own."""
    found = {}
    with server.running("walk", server.any_binaries()) as running:
        databases = Databases(running.dsn("postgres"))
        for name in names:
            found[name] = walk = Walk()
            with databases.fresh() as dsn, walk.watched():
                WALKS[name](dsn, walk)
        databases.close()
    return found


def shown(name: str, walk: Walk, *, calls: bool) -> Iterator[str]:
    files = walk.files()
    goal = f" (goal: at most {GOALS[name]})" if name in GOALS else ""
    about = (WALKS[name].__doc__ or "").strip()
    yield f"{name}: {len(files)} files{goal}.  {about}"
    for file, count in files.items():
        yield f"  {count:4}  {file}"
        if calls:
            own = {function: n for (where, function), n in walk.calls.items() if where == file}
            yield from (f"        {n:4}  {function}" for function, n in own.items())


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("walk", nargs="*", metavar="WALK", help=f"{', '.join(WALKS)}; default: all")
    add("--calls", action="store_true", help="every function, too")
    add("--json", action="store_true", help="calls by file, as JSON")
    add("--check", action="store_true", help="exit code 1 when a walk takes more than its goal")
    given = parser.parse_args(words)
    if unknown := set(given.walk) - WALKS.keys():
        parser.error(f"there is no walk {', '.join(sorted(unknown))}: {', '.join(WALKS)}")
    found = walked(given.walk or list(WALKS))
    if given.json:
        print(json.dumps({name: walk.files() for name, walk in found.items()}, indent=1))
    else:
        for name, walk in found.items():
            print(*shown(name, walk, calls=given.calls), "", sep="\n")
    long = [
        name for name, walk in found.items() if len(walk.files()) > GOALS.get(name, sys.maxsize)
    ]
    return int(given.check and bool(long))


if __name__ == "__main__":
    sys.exit(main())
