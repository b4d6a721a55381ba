"""What PostgreSQL and MySQL share: every operation of a store, in terms of named statements."""

from penstock.tasks.sql_store.base import Work
from penstock.tasks.sql_store.inserting import Inserts
from penstock.tasks.sql_store.reading import Reads
from penstock.tasks.sql_store.reserves import Reserves
from penstock.tasks.sql_store.settling import Settles
from penstock.tasks.sql_store.upkeep import Upkeep

__all__ = ["SqlTaskStore", "Work"]


class SqlTaskStore(Inserts, Reserves, Settles, Upkeep, Reads):
    """A task store on a database; see `TaskStore` for what each method promises."""
