"""All parts of the door, put together, opened and closed in order."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from penstock.client._async.client import Client
from penstock.client._async.maintenance import maintain
from penstock.client.calls import Call
from penstock.client.endings import end
from penstock.client.rows import one
from penstock.errors import InvalidSetting, PenstockError
from penstock.sqs import key_file, key_table
from penstock.sqs.app import Gateway
from penstock.sqs.facts import FactCache
from penstock.sqs.identity import Gatekeeper
from penstock.sqs.keys import Keyring
from penstock.sqs.polls import Polls
from penstock.sqs.sealing import Seal
from penstock.sqs.service import Service
from penstock.sqs.watching import Watching

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.settings import Settings
    from penstock.sqs.keys import AccessKey
    from penstock.sqs.options import Options

_log = logging.getLogger("penstock.sqs")
# SQS moves messages all the time while a move task runs.
_MOVING_PERIOD = 1.0


class Door:
    """One process's door to the queues."""

    def __init__(self, settings: Settings, options: Options, folder: Path | None = None) -> None:
        self.options = options
        self.client = Client(settings)
        self.keyring = Keyring()
        self.watching = Watching(access_log=options.access_log, folder=folder)
        self.service = Service(self.client.database)
        self.polls = Polls(self.client, self.service)
        self.gateway = Gateway(
            options=options,
            gatekeeper=Gatekeeper(self.keyring, options),
            service=self.service,
            facts=FactCache(self.service),
            polls=self.polls,
            watching=self.watching,
        )
        self._seal = Seal.load()
        self._chores: list[asyncio.Task[None]] = []

    async def open(self) -> None:
        """Connect, read the keys, and begin the housekeeping."""
        await self.client.open()
        try:
            await self.load_keys()
            if self.options.auth and not len(self.keyring):
                raise InvalidSetting(
                    "there is no access key yet, so nobody could sign a request: make one with "
                    "`penstock sqs-key create`, or start with --no-auth on this machine"
                )
        except BaseException:
            await self.client.close()
            raise
        self._chores = [
            asyncio.create_task(self._repeat(self._move, _MOVING_PERIOD)),
            asyncio.create_task(
                self._repeat(self._housekeep, self.options.housekeeping.total_seconds())
            ),
        ]

    async def close(self) -> None:
        """Answer what is open, finish what is under way, disconnect."""
        self.polls.stop()
        await end(self._chores)
        await self.polls.settle()
        await self.service.close()
        await self.client.close()

    async def load_keys(self) -> None:
        """Take the keys of the file and of the table; a key in the file wins."""
        if not self.options.auth:
            return
        keys: list[AccessKey] = []
        if self.options.key_table:
            keys += key_table.open_rows(await self.client.run(key_table.rows()), self._seal)
        if self.options.key_file is not None:
            keys += await asyncio.to_thread(key_file.load, self.options.key_file, self._seal)
        self.keyring.replace(keys)

    async def _repeat(self, chore: object, period: float) -> None:
        assert callable(chore)
        while True:
            await asyncio.sleep(period)
            try:
                await chore()
            except PenstockError as problem:
                _log.warning("housekeeping failed and is tried again: %s", type(problem).__name__)

    async def _move(self) -> None:
        self.watching.share(self.polls.count)
        await self.client.run(Call("select pgqs.run_move_tasks()", (), one(int)))

    async def _housekeep(self) -> None:
        await self.load_keys()
        for step in await maintain(self.client.run):
            if step.error is not None:
                _log.warning("maintenance step %s failed: %s", step.step, step.error)
