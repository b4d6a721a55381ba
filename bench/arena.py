"""Where contestants meet: one server, a fresh database for each contestant and case."""

from __future__ import annotations

import itertools
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import psycopg
from psycopg import sql

from bench.contestants import entry
from bench.ledger import Ledger
from bench.payloads import Stream

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bench.contestants import Contestant, Session
    from bench.harness import Meter
    from bench.model import Case
    from bench.server import Server
    from bench.sizes import Sizes


TABLES = "select schemaname, relname from pg_stat_user_tables"


@dataclass
class Lane:
    """One contestant in one case: its database, its session, and what it has published and got."""

    contestant: Contestant
    case: Case
    database: str
    dsn: str
    session: Session
    stream: Stream
    ledger: Ledger = field(default_factory=Ledger)
    closed: bool = False

    def close(self) -> None:
        """End the session, once, so that its backends report their statistics."""
        if not self.closed:
            self.closed = True
            self.session.close()

    def vacuum(self) -> None:
        """Clear away dead rows and renew statistics, as autovacuum would have done by now."""
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            tables = connection.execute(TABLES).fetchall()
            names = sql.SQL(", ").join(sql.Identifier(*names) for names in tables)
            connection.execute(sql.SQL("vacuum (analyze) {}").format(names))

    def preload(self, messages: int, sizes: Sizes) -> None:
        for payloads in self.stream.batches(messages, sizes.preload_batch):
            self.session.preload(payloads, self.case.batch)


@dataclass
class Arena:
    server: Server
    contestants: Sequence[Contestant]
    sizes: Sizes
    meter: Meter
    templates: set[str] = field(default_factory=set)
    serial: Iterator[int] = field(default_factory=itertools.count)

    def refusal(self, contestant: Contestant, case: Case) -> str | None:
        """Why the contestant can't take part in the case, or None."""
        if case.keys and not entry(contestant).keyed:
            return "keeps no order by key"
        return contestant.unavailable(self.server) or contestant.refuses(case)

    @contextmanager
    def lane(self, contestant: Contestant, case: Case) -> Iterator[Lane]:
        """A fresh database with the contestant installed, dropped in the end."""
        database = f"lane_{next(self.serial)}"
        self.server.create_database(database, self._template(contestant))
        dsn = self.server.dsn(database)
        session = contestant.open(dsn, case)
        stream = Stream(case.payload, case.keys)
        lane = Lane(contestant, case, database, dsn, session, stream)
        try:
            yield lane
        finally:
            lane.close()
            self.server.drop_database(database)

    def _template(self, contestant: Contestant) -> str:
        name = f"template_{contestant.name}"
        if name not in self.templates:
            self.meter.say(f"installing {contestant.name}")
            self.server.create_database(name)
            contestant.install(self.server, name)
            self.templates.add(name)
        return name
