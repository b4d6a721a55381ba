"""The only way to a PostgreSQL server: for client, tasks, dashboard, Spark, pipelines and CLI.

`connect()` opens one blocking connection, `connect_async()` one for asyncio, and
`_async.database.Database` (with its blocking twin) keeps pools of them.  All take `Settings`, and
all give a connection the same way: keepalives, a limit to the server's silence, an application
name, and the session settings that Penstock relies on.
"""

from penstock.postgres._async.connections import connect as connect_async
from penstock.postgres._sync.connections import connect

__all__ = ["connect", "connect_async"]
