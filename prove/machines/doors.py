"""The doors, each with the machines that go through it and what its twin does wrong."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg

from penstock import sync
from penstock.tasks.stores import mysql_dialect as mysql
from penstock.tasks.stores import postgres_dialect as postgres
from prove.machines import twins
from prove.sabotage import LATE_DELETES, NO_TOKEN_CHECK, rewrite
from prove.servers import mortal
from tests.conformance.client_machine import ClientMachine
from tests.conformance.engine import Engine
from tests.conformance.machine import QueueMachine
from tests.sqs import machine as sqs
from tests.sqs.running import running
from tests.tasks import machine as tasks
from tests.tasks import mariadb
from tests.tasks.backends import Maria, Postgres

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from prove.machines.exploring import Make
    from tests.tasks.backends import Place

ORDERINGS = ("standard", "filtered", "fifo", "fair")
# What is at stake is not the disk.  Thousands of examples leave dead rows, so they are cleaned up.
QUICK = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off", "autovacuum": "on"}
QUICK_MARIADB = ("--innodb-flush-log-at-trx-commit=0", "--sync-binlog=0")


@dataclass(frozen=True, slots=True)
class Door:
    name: str
    sabotage: str
    open: Callable[[bool], AbstractContextManager[list[Make]]]
    """Sabotaged or not: a machine of each kind."""


def _session(stack: ExitStack, dsn: str, *, autocommit: bool = True) -> psycopg.Connection[Any]:
    words = "-c statement_timeout=30s"
    return stack.enter_context(psycopg.connect(dsn, autocommit=autocommit, options=words))


@contextmanager
def _sql(sabotaged: bool) -> Iterator[list[Make]]:  # noqa: FBT001
    with mortal(**QUICK) as server, ExitStack() as stack:
        db = _session(stack, server.dsn())
        if sabotaged:
            rewrite(db, *NO_TOKEN_CHECK)
        engine = Engine(db)
        engine.prepare()
        second = Engine(_session(stack, server.dsn(), autocommit=False))
        yield [partial(QueueMachine, ordering, engine, second) for ordering in ORDERINGS]


@contextmanager
def _python(sabotaged: bool) -> Iterator[list[Make]]:  # noqa: FBT001
    with mortal(**QUICK) as server, ExitStack() as stack:
        if sabotaged:
            stack.enter_context(twins.delay_is_forgotten())
        looks = _session(stack, server.dsn())
        Engine(looks).prepare()
        second = _session(stack, server.dsn(), autocommit=False)
        client = stack.enter_context(sync.connect(server.dsn()))
        yield [partial(ClientMachine, ordering, client, looks, second) for ordering in ORDERINGS]


@contextmanager
def _tasks_on_postgresql(sabotaged: bool) -> Iterator[list[Make]]:  # noqa: FBT001
    with mortal(**QUICK) as server, ExitStack() as stack:
        if sabotaged:
            stack.enter_context(twins.statements_rewritten(postgres, *twins.ANY_ATTEMPT))
        yield [_of_tasks(stack, Postgres(server.database.server, "postgresql").create())]


@contextmanager
def _tasks_on_mariadb(sabotaged: bool) -> Iterator[list[Make]]:  # noqa: FBT001
    with mariadb.running(*QUICK_MARIADB) as server, ExitStack() as stack:
        if sabotaged:
            stack.enter_context(twins.statements_rewritten(mysql, *twins.LEASES_NEVER_END))
        yield [_of_tasks(stack, Maria(server).create())]


def _of_tasks(stack: ExitStack, place: Place) -> Make:
    return partial(tasks.Machine, place, *stack.enter_context(tasks.opened(place)))


@contextmanager
def _sqs(sabotaged: bool) -> Iterator[list[Make]]:  # noqa: FBT001
    with mortal(**QUICK) as server, ExitStack() as stack:
        db = _session(stack, server.dsn())
        db.execute("select pgqs.configure('recreate_wait', '0'), pgqs.configure('purge_wait', '0')")
        if sabotaged:
            rewrite(db, *LATE_DELETES)
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        door = stack.enter_context(running(server.dsn(), folder))
        clients = [
            stack.enter_context(closing(door.boto3(protocol=protocol)))
            for protocol in ("json", "query")
        ]
        yield [
            partial(sqs.Machine, client, db, fifo=fifo)
            for client in clients
            for fifo in (False, True)
        ]


_ALL = (
    Door("SQL", "any token is taken for the right one", _sql),
    Door("Python", "a nack forgets its delay", _python),
    Door("SQS through boto3", "a FIFO queue lets a receipt delete that is no longer good", _sqs),
    Door("tasks on PostgreSQL", "an earlier attempt of its owner passes", _tasks_on_postgresql),
    Door("tasks on MariaDB", "a lease that ended is never taken back", _tasks_on_mariadb),
)
DOORS = {door.name: door for door in _ALL}
