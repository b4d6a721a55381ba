"""Ten thousand clients that wait, over real sockets, on a handful of database connections."""

from __future__ import annotations

import asyncio
import json
import re
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import psycopg
import pytest

from tests.fixtures.patience import eventually_async
from tests.sqs import raw
from tests.sqs.running import ADMIN
from tests.sqs.test_server import command, key_file_of

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.prove, pytest.mark.timeout(300)]

POLLS = 10_000
QUEUES = 20
AT_ONCE = 200
MOST_CONNECTIONS = 20
ENOUGH = POLLS * 99 // 100


class Poller:
    """One client on one socket, which polls again when its time is up."""

    def __init__(self, url: str, request: bytes) -> None:
        self._place = urlsplit(url)
        self._request = request

    async def begin(self) -> None:
        self._reader, self._writer = await asyncio.open_connection(
            self._place.hostname, self._place.port
        )

    async def messages(self) -> Any:
        """The first that come; none: the server has stopped."""
        found: Any = {}
        while not found:
            self._writer.write(self._request)
            found, ended = await self._answer()
            if ended:
                break
        self._writer.close()
        return found.get("Messages", [])

    async def _answer(self) -> tuple[Any, bool]:
        head = (await self._reader.readuntil(b"\r\n\r\n")).lower()
        # On a machine that is too busy a poll may be refused: like every SDK, it repeats it.
        assert head.startswith((b"http/1.1 200", b"http/1.1 503")), head
        length = re.search(rb"content-length: (\d+)", head)
        assert length is not None
        body = await self._reader.readexactly(int(length[1]))
        found = json.loads(body) if head.startswith(b"http/1.1 200") else {}
        return found, b"connection: close" in head


def _bytes(made: raw.Raw) -> bytes:
    host = urlsplit(made.url).netloc
    head = [f"POST / HTTP/1.1\r\nhost: {host}", f"content-length: {len(made.body)}"]
    head += [f"{name}: {value}" for name, value in made.headers.items()]
    return "\r\n".join([*head, "", ""]).encode() + made.body


async def _metric(url: str, name: str) -> int:
    text = (await asyncio.to_thread(raw.Raw(url, "GET", "/metrics").send)).body.decode()
    found = re.search(rf"^{name} (\d+)$", text, re.MULTILINE)
    return int(found[1]) if found else 0


async def _connections(dsn: str) -> int:
    async with await psycopg.AsyncConnection.connect(dsn) as conn:
        cursor = await conn.execute(
            "select count(*) from pg_stat_activity"
            " where datname = current_database() and pid <> pg_backend_pid()"
        )
        row = await cursor.fetchone()
    assert row is not None
    return int(row[0])


async def test_ten_thousand_sockets_wait_on_few_connections(fresh_dsn: str, tmp_path: Path) -> None:
    keys = key_file_of(tmp_path, ADMIN)
    with command(fresh_dsn, "--keys", str(keys)) as (process, facts):
        url = facts["url"]
        for number in range(QUEUES):
            raw.signed(url, "CreateQueue", {"QueueName": f"q{number}"}).send()
        pollers = [
            Poller(
                url,
                _bytes(
                    raw.signed(
                        url,
                        "ReceiveMessage",
                        {"QueueUrl": f"q{number % QUEUES}", "WaitTimeSeconds": 20},
                    )
                ),
            )
            for number in range(POLLS)
        ]
        for first in range(0, POLLS, AT_ONCE):
            await asyncio.gather(*(each.begin() for each in pollers[first : first + AT_ONCE]))
        answers = [asyncio.create_task(each.messages()) for each in pollers]
        # On a slow machine the first ask again while the last begin.
        while await _metric(url, "penstock_sqs_open_polls") < ENOUGH:
            assert not any(each.done() for each in answers)
        assert await _connections(fresh_dsn) <= MOST_CONNECTIONS
        # They are awake: the next message of each queue finds somebody.
        for number in range(QUEUES):
            wanted = {"QueueUrl": f"q{number}", "MessageBody": "x"}
            await asyncio.to_thread(raw.signed(url, "SendMessage", wanted).send)
        await eventually_async(lambda: sum(each.done() for each in answers) >= QUEUES)
        assert await _connections(fresh_dsn) <= MOST_CONNECTIONS
        process.terminate()
        found = await asyncio.gather(*answers)
    assert sum(bool(each) for each in found) == QUEUES
