"""The stores of the async queue; `_sync/stores.py` has the same names for the blocking one."""

from penstock.tasks.connecting import open_store
from penstock.tasks.store import TaskStore

__all__ = ["TaskStore", "open_store"]
