"""How far a stream is behind: counted in the database, so not asked for at every look."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from penstock.spark.pipelines import database

if TYPE_CHECKING:
    from collections.abc import Collection

_EVERY = 2.0


class Lag:
    """Messages that a group has not dealt with yet; a figure may be two seconds old."""

    def __init__(self, url: str, group: str, topics: Collection[str]) -> None:
        self._url, self._group, self._topics = url, group, topics
        self._known: int | None = None
        self._asked = float("-inf")

    def __call__(self) -> int | None:
        if time.monotonic() - self._asked > _EVERY:
            self._known = database.reader_lag(self._url, self._group, self._topics)
            self._asked = time.monotonic()
        return self._known
