"""The stores of the async queue; `_sync/store.py` has the same names for the blocking one."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from penstock.errors import InvalidSetting
from penstock.tasks.store import TaskStore
from penstock.tasks.stores.memory_store import MemoryTaskStore

if TYPE_CHECKING:
    from penstock.tasks.options import StoreOptions

__all__ = ["TaskStore", "open_store"]


def open_store(dsn: str | None = None, options: StoreOptions | None = None) -> TaskStore:
    """The store for `postgresql://…`, `mysql://…`, `mariadb://…` or `memory:`, not yet opened.

    Without a DSN, PENSTOCK_DSN is used.
    """
    dsn = dsn or os.environ.get("PENSTOCK_DSN", "")
    scheme = dsn.partition(":")[0].partition("+")[0].lower()
    match scheme:
        case "mysql" | "mariadb":
            # Its driver is an extra.
            from penstock.tasks.stores.mysql_store import MySQLTaskStore  # noqa: PLC0415

            return MySQLTaskStore(dsn, options)
        case "memory":
            return MemoryTaskStore(options)
        case _ if scheme in ("postgresql", "postgres") or "=" in dsn:
            from penstock.tasks.stores.postgres_store import PostgresTaskStore  # noqa: PLC0415

            return PostgresTaskStore(dsn, options)
        case _:
            # The DSN itself is not repeated: it may hold a password.
            raise InvalidSetting(
                "tasks need a DSN that begins with postgresql:// or mysql://: "
                "give one, or set PENSTOCK_DSN"
            )
