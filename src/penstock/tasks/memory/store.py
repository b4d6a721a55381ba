"""Tasks in memory, with the same rules as on a database."""

from penstock.tasks.memory.inserting import Inserts
from penstock.tasks.memory.reading import Reads
from penstock.tasks.memory.reserves import Reserves
from penstock.tasks.memory.settling import Settles
from penstock.tasks.memory.upkeep import Upkeep


class MemoryTaskStore(Inserts, Reserves, Settles, Upkeep, Reads):
    """A task store that forgets everything; for one process and one event loop."""
