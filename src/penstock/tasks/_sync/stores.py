"""The stores of the blocking queue: the names of `_async/stores.py`.

This file and `loop.py` are written by hand.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.tasks import connecting
from penstock.tasks._sync.store import TaskStore

if TYPE_CHECKING:
    from penstock.tasks.options import StoreOptions

__all__ = ["TaskStore", "open_store"]


def open_store(dsn: str | None = None, options: StoreOptions | None = None) -> TaskStore:
    """The store for `postgresql://…`, `mysql://…`, `mariadb://…` or `memory:`, not yet opened."""
    return TaskStore(connecting.open_store(dsn, options))
