"""One run of a task command: a store on PostgreSQL, MySQL or the embedded server."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from datetime import timedelta
from functools import cached_property
from typing import Any, TypeVar

from penstock.cli.session import BaseSession, Session
from penstock.settings import variable
from penstock.tasks import StoreOptions, TaskStore, open_store

T = TypeVar("T")

# Long enough for a restart of the server, short enough for a wrong address.
_PATIENCE = timedelta(seconds=5)
_MYSQL = ("mysql", "mariadb")


def is_mysql(dsn: str | None) -> bool:
    """Whether a DSN leads to MySQL or MariaDB, which have tasks only."""
    given = dsn or os.environ.get(variable("dsn"), "")
    return given.partition(":")[0].partition("+")[0].strip().lower() in _MYSQL


class TaskSession(BaseSession):
    """Opens the store that a command needs, and closes it at the end."""

    def __init__(self, dsn: str | None, *, json: bool) -> None:
        super().__init__(dsn, json=json)
        self._given = dsn

    @cached_property
    def dsn(self) -> str:
        """Where the database is; without a DSN the embedded server is started now."""
        if is_mysql(self._given):
            return self._given or os.environ[variable("dsn")]
        return self._postgres.dsn

    @cached_property
    def _postgres(self) -> Session:
        return self._closing.enter_context(Session(self._given, json=self.output.json))

    def store(self, **options: Any) -> TaskStore:
        """A store that is not opened yet."""
        return open_store(self.dsn, StoreOptions(pool_size=2, retry_for=_PATIENCE, **options))

    def run(self, work: Callable[[TaskStore], Awaitable[T]], *, opened: bool = True) -> T:
        """Do something with the store, which is open meanwhile."""
        store = self.store()

        async def main() -> T:
            try:
                if opened:
                    await store.open()
                return await work(store)
            finally:
                await store.close()

        return asyncio.run(main())
