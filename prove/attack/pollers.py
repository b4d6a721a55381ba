"""Clients that wait, and what the server and the database tell of them."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any
from urllib.parse import urlsplit

import psycopg

from tests.sqs import raw


class Poller:
    """One client on one socket, which polls again when its time is up."""

    def __init__(self, url: str, request: bytes, gate: asyncio.Semaphore) -> None:
        self._place = urlsplit(url)
        self._request = request
        self._gate = gate
        """Not all connect at once."""

    async def messages(self) -> int:
        """How many come first; 0: the server has stopped."""
        found: Any = {}
        async with self._gate:
            self._reader, self._writer = await asyncio.open_connection(
                self._place.hostname, self._place.port
            )
        try:
            while not found:
                self._writer.write(self._request)
                found, ended = await self._answer()
                if ended:
                    break
        finally:
            self._writer.close()
        return len(found.get("Messages", []))

    async def _answer(self) -> tuple[Any, bool]:
        head = (await self._reader.readuntil(b"\r\n\r\n")).lower()
        # On a machine that is too busy a poll may be refused: like every SDK, it repeats it.
        assert head.startswith((b"http/1.1 200", b"http/1.1 503")), head
        length = re.search(rb"content-length: (\d+)", head)
        assert length is not None
        body = await self._reader.readexactly(int(length[1]))
        found = json.loads(body) if head.startswith(b"http/1.1 200") else {}
        return found, b"connection: close" in head


async def open_polls(url: str) -> int:
    """How many wait, as the server's metrics say."""
    text = (await asyncio.to_thread(raw.Raw(url, "GET", "/metrics").send)).body.decode()
    found = re.search(r"^penstock_sqs_open_polls (\d+)$", text, re.MULTILINE)
    return int(found[1]) if found else 0


async def connections(dsn: str) -> int:
    """How many sessions the database has, but for this question's."""
    async with await psycopg.AsyncConnection.connect(dsn) as conn:
        cursor = await conn.execute(
            "select count(*) from pg_stat_activity"
            " where datname = current_database() and pid <> pg_backend_pid()"
        )
        row = await cursor.fetchone()
    assert row is not None
    return int(row[0])
