"""The client: everything that can be done with queues, over one pair of connection pools."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self, Unpack

from penstock.client._async.administration import Administration
from penstock.client._async.claiming import Claiming
from penstock.client._async.consuming import Consuming
from penstock.client._async.publishing import Publishing
from penstock.client._async.replies import Replies
from penstock.client._async.viewing import Viewing
from penstock.errors import InvalidSetting
from penstock.settings import Settings, SettingsOptions

if TYPE_CHECKING:
    from types import TracebackType


def connect(
    dsn: str | None = None, *, settings: Settings | None = None, **options: Unpack[SettingsOptions]
) -> Client:
    """A client of the database: `async with penstock.connect() as mq`.

    Without a DSN, here or in PENSTOCK_DSN, an embedded PostgreSQL is used.  `options` are fields of
    `Settings`, or give those whole.
    """
    if settings is None:
        settings = Settings.load(dsn=dsn, **options)
    elif dsn is not None or options:
        raise InvalidSetting("settings= is all there is: leave out the DSN and other options")
    return Client(settings)


class Client(Administration, Publishing, Claiming, Consuming, Viewing, Replies):
    """Open it with `async with`, or with `open()` and `close()`; many tasks may share it."""

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()
