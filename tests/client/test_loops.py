"""A client belongs to the event loop that opened it: asyncio's connections can't move."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

import penstock
from penstock import errors

if TYPE_CHECKING:
    from tests.fixtures.databases import Database


def test_a_client_of_another_event_loop_says_so(database: Database) -> None:
    mq = penstock.connect(database.dsn)
    first, second = asyncio.new_event_loop(), asyncio.new_event_loop()
    try:
        first.run_until_complete(mq.open())
        with pytest.raises(errors.ClientClosed, match=r"one asyncio\.run"):
            second.run_until_complete(mq.list_topics())
        first.run_until_complete(mq.close())
    finally:
        first.close()
        second.close()


def test_a_client_that_outlived_its_loop_can_be_opened_in_the_next(database: Database) -> None:
    mq = penstock.connect(database.dsn)

    async def used() -> int:
        async with mq:
            return len(await mq.list_topics())

    assert [asyncio.run(used()), asyncio.run(used())] == [0, 0]
