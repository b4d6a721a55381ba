"""Opening a worker's client: with patience, for a worker may be started before its database."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from penstock.backoff import backoff
from penstock.cancellation import end
from penstock.errors import DatabaseUnavailable, EngineError
from penstock.observe.events import Event, Name, emit

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from penstock.client._async.client import Client


@asynccontextmanager
async def opened(client: Client, worker: str, stop_asked: asyncio.Event) -> AsyncIterator[bool]:
    """Open the client, waiting for its database; False: the worker was told to stop first.

    A client that others have opened stays open.
    """
    if client.database.is_open:
        yield True
        return
    opening = asyncio.create_task(_open_patiently(client, worker))
    stopping = asyncio.create_task(stop_asked.wait())
    try:
        await asyncio.wait([opening, stopping], return_when=asyncio.FIRST_COMPLETED)
        is_open = opening.done()
    finally:
        # Also when the worker is cancelled meanwhile: nothing goes on without it.
        await end([stopping, opening])
    try:
        if is_open:
            opening.result()
        yield is_open
    finally:
        await client.close()


async def _open_patiently(client: Client, worker: str) -> None:
    attempt = 0
    while True:
        try:
            await client.open()
        except (DatabaseUnavailable, EngineError) as problem:
            attempt += 1
            kind = type(problem).__name__
            emit(Event(Name.CALL_FAILED, worker=worker, attempt=attempt, error_kind=kind))
            await asyncio.sleep(backoff(attempt))
        else:
            return
