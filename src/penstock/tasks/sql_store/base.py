"""What every part of a store on a database stands on: transactions, the clock, a read."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Self, TypeVar

from penstock.tasks import reserving, rows
from penstock.tasks.options import StoreOptions
from penstock.tasks.retrying import Try
from penstock.tasks.sql import Parameters, Session

if TYPE_CHECKING:
    from types import TracebackType

    from penstock.tasks.health import Finding

T = TypeVar("T")
Work = Callable[[Session, Try], Awaitable[T]]


class SqlBase(ABC):
    """What each database does its own way, and the little that all parts share."""

    wakes = False
    _dialect: reserving.Dialect

    def __init__(self, options: StoreOptions | None = None) -> None:
        self.options = options or StoreOptions()
        self._shift = timedelta(0)

    @abstractmethod
    async def open(self) -> Self:
        """Connect, and check that the server and its tables can be used."""

    @abstractmethod
    async def close(self) -> None:
        """Give every connection back."""

    @abstractmethod
    async def create_tables(self) -> None:
        """Make the tables and indexes that are missing."""

    @abstractmethod
    async def check(self) -> list[Finding]:
        """What is good about server and tables, and what should be improved."""

    @abstractmethod
    async def _atomically(self, work: Work[T], *, capped: bool = False) -> T:
        """Run work in a transaction, again and again if need be."""

    @abstractmethod
    async def _directly(self, work: Work[T]) -> T:
        """Run a single statement, which is its own transaction."""

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    # Clock

    def shift_clock(self, by: timedelta) -> None:
        self._shift += by

    async def now(self) -> datetime:
        return await self._directly(self._read_clock)

    async def _read_clock(self, session: Session, _: Try) -> datetime:
        [row] = await session.rows(self._dialect["now"], self._timed())
        return rows.sure(row[0])

    def _timed(self, **parameters: Any) -> Parameters:
        return {**parameters, "shift": self._dialect.duration(self._shift)}

    async def _read(self, name: str, **parameters: Any) -> list[Any]:
        async def work(session: Session, _: Try) -> list[Any]:
            return await session.rows(self._dialect[name], parameters)

        return await self._directly(work)

    async def wait(self, at_most: timedelta) -> bool:
        await asyncio.sleep(at_most.total_seconds())
        return False
