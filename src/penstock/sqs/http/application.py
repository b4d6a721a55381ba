"""The application of one process: all parts of the server, opened and closed in order."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

import msgspec

from penstock.cancellation import end
from penstock.client._async.client import Client
from penstock.client._async.maintenance import maintain
from penstock.client.calls import Call
from penstock.client.values import one
from penstock.errors import InvalidSetting, PenstockError
from penstock.observe.health import health
from penstock.sqs.auth import key_storage
from penstock.sqs.auth.access_keys import Keyring
from penstock.sqs.auth.authentication import Authenticator
from penstock.sqs.auth.key_storage import Seal
from penstock.sqs.backend.long_polls import Polls
from penstock.sqs.backend.queue_facts import FactCache
from penstock.sqs.backend.sqs_service import Service
from penstock.sqs.http.gateway import Gateway, Response
from penstock.sqs.http.request_metrics import RequestMetrics

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from penstock.settings import Settings
    from penstock.sqs.auth.access_keys import AccessKey
    from penstock.sqs.server_options import Options

HEALTH = "/health"
METRICS = "/metrics"
PAGES = frozenset({HEALTH, METRICS})
_log = logging.getLogger("penstock.sqs")
# SQS moves messages all the time while a move task runs.
_MOVING_PERIOD = 1.0


class Application:
    """Everything between a socket and the database."""

    def __init__(self, settings: Settings, options: Options, folder: Path | None = None) -> None:
        self.options = options
        self.client = Client(settings)
        self.keyring = Keyring()
        self.metrics = RequestMetrics(access_log=options.access_log, folder=folder)
        self.service = Service(self.client.database)
        self.polls = Polls(self.client, self.service)
        self.gateway = Gateway(
            options=options,
            authenticator=Authenticator(self.keyring, options),
            service=self.service,
            facts=FactCache(self.service),
            polls=self.polls,
            metrics=self.metrics,
        )
        self._seal = Seal.load()
        self._background: list[asyncio.Task[None]] = []

    async def open(self) -> None:
        """Connect, read the keys, and begin the housekeeping."""
        await self.client.open()
        try:
            await self.load_keys()
            if self.options.auth and not len(self.keyring):
                raise InvalidSetting(
                    "there is no access key yet, so no client could sign a request: make one with "
                    "`penstock sqs-key create`, or start with --no-auth on this machine"
                )
        except BaseException:
            await self.client.close()
            raise
        self._background = [
            asyncio.create_task(self._repeat(self._move, _MOVING_PERIOD)),
            asyncio.create_task(
                self._repeat(self._housekeep, self.options.housekeeping.total_seconds())
            ),
        ]

    async def close(self) -> None:
        """Answer what is open, finish what is under way, disconnect."""
        self.polls.stop()
        await end(self._background)
        await self.polls.settle()
        await self.service.close()
        await self.client.close()

    async def page(self, path: str) -> Response:
        """One of `PAGES`, which are for the operator of the server."""
        if path == METRICS:
            text = self.metrics.text(self.polls.count)
            return _page(200, b"text/plain; version=0.0.4", text.encode())
        found = await health(self.client)
        body = msgspec.json.encode(
            {
                "status": "ok" if found.serving else "failing",
                "checks": {check.name: check.ok for check in found.checks},
            }
        )
        return _page(200 if found.serving else 503, b"application/json", body)

    async def load_keys(self) -> None:
        """Take the keys of the file and of the table; a key in the file wins."""
        if not self.options.auth:
            return
        keys: list[AccessKey] = []
        if self.options.key_table:
            rows = await self.client.run(key_storage.list_rows())
            keys += key_storage.open_rows(rows, self._seal)
        if self.options.key_file is not None:
            keys += await asyncio.to_thread(
                key_storage.load_file, self.options.key_file, self._seal
            )
        self.keyring.replace(keys)

    async def _repeat(self, step: Callable[[], Awaitable[None]], period: float) -> None:
        while True:
            await asyncio.sleep(period)
            try:
                await step()
            except PenstockError as problem:
                _log.warning("housekeeping failed and is tried again: %s", type(problem).__name__)

    async def _move(self) -> None:
        self.metrics.share(self.polls.count)
        await self.client.run(Call("select pgqs.run_move_tasks()", (), one(int)))

    async def _housekeep(self) -> None:
        await self.load_keys()
        for step in await maintain(self.client.run):
            if step.error is not None:
                _log.warning("maintenance step %s failed: %s", step.step, step.error)


def _page(status: int, kind: bytes, body: bytes) -> Response:
    headers = [(b"content-type", kind), (b"content-length", b"%d" % len(body))]
    return Response(status, headers, body)
