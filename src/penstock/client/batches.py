"""An iterable of any length, in batches: for the async client, and for the blocking one.

The blocking client is generated from the async one, and `_async` becomes `_sync` in every name.
"""

from __future__ import annotations

from collections.abc import AsyncIterable
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Iterator

T = TypeVar("T")


async def batches_async(items: Iterable[T] | AsyncIterable[T], size: int) -> AsyncIterator[list[T]]:
    """Items of an iterable of any length, `size` at a time."""
    batch: list[T] = []
    async for item in _each(items):
        batch.append(item)
        if len(batch) == size:
            yield batch
            batch = []
    if batch:
        yield batch


async def _each(items: Iterable[T] | AsyncIterable[T]) -> AsyncIterator[T]:
    if isinstance(items, AsyncIterable):
        async for item in items:
            yield item
    else:
        for item in items:
            yield item


def batches_sync(items: Iterable[T] | AsyncIterable[T], size: int) -> Iterator[list[T]]:
    if isinstance(items, AsyncIterable):
        raise TypeError("an async iterable needs the client of penstock.connect()")
    batch: list[T] = []
    for item in items:
        batch.append(item)
        if len(batch) == size:
            yield batch
            batch = []
    if batch:
        yield batch
