"""Throw-away databases, copies of a template that has the engine; and the clock of one of them."""

from __future__ import annotations

import itertools
import secrets
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from psycopg import sql
from psycopg.conninfo import make_conninfo

from penstock import schema
from penstock.postgres import connect
from penstock.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from psycopg import Connection

_COPY = sql.SQL("create database {} template {}")
# Copying files beats writing them to the log as well, from the version on that gives the choice.
_QUICK_COPY = sql.SQL("create database {} template {} strategy file_copy")
_STRATEGY_SINCE = 150000


class Databases:
    """Makes databases on a server where `dsn` may create them."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        # Several test sessions may share a server.
        self._prefix = f"penstock_test_{secrets.token_hex(4)}"
        self._numbers = itertools.count(1)
        self._has_template = False

    @contextmanager
    def fresh(self) -> Iterator[str]:
        """A new database with the engine, dropped at the end; gives its DSN."""
        name = f"{self._prefix}_{next(self._numbers)}"
        self._copy(self._template(), name)
        try:
            yield make_conninfo(self._dsn, dbname=name)
        finally:
            self._drop(name)

    def close(self) -> None:
        """Drop the template."""
        if self._has_template:
            self._drop(self._template_name)
            self._has_template = False

    @property
    def _template_name(self) -> str:
        return f"{self._prefix}_template"

    def _template(self) -> str:
        if not self._has_template:
            self._administer(sql.SQL("create database {}"), self._template_name)
            self._has_template = True
            with connected(make_conninfo(self._dsn, dbname=self._template_name)) as conn:
                schema.install(conn)
        return self._template_name

    def _copy(self, template: str, name: str) -> None:
        with connected(self._dsn) as conn:
            quick = conn.info.server_version >= _STRATEGY_SINCE
            statement = _QUICK_COPY if quick else _COPY
            conn.execute(statement.format(sql.Identifier(name), sql.Identifier(template)))

    def _drop(self, name: str) -> None:
        # Forced: a test that leaks a connection should fail for that, not for this.
        self._administer(sql.SQL("drop database if exists {} (force)"), name)

    def _administer(self, statement: sql.SQL, name: str) -> None:
        with connected(self._dsn) as conn:
            conn.execute(statement.format(sql.Identifier(name)))


class Clock:
    """The time of one database: the engine's own clock, which tests move, for all sessions.

    Delays, retries, claims and keep-alives follow it at once; timers inside a process don't.
    """

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn

    def advance(self, by: timedelta | None = None, *, seconds: float = 0) -> None:
        """Let this much time pass."""
        span = (by or timedelta()) + timedelta(seconds=seconds)
        with connected(self._dsn) as conn:
            conn.execute("select penstock.advance_clock(%s)", (span,))

    def now(self) -> datetime:
        """What the engine takes for now."""
        with connected(self._dsn) as conn:
            (row,) = conn.execute("select penstock.clock()")
        moment: datetime = row[0]
        return moment

    def advance_to(self, moment: datetime) -> None:
        """Let time pass until then; a moment that is over changes nothing."""
        span = moment - self.now()
        if span > timedelta():
            self.advance(span)


def connected(dsn: str) -> Connection[Any]:
    """A connection for statements that take long on a busy disk, such as copying a database."""
    connection = connect(Settings(dsn=dsn))
    connection.answer_within = None
    return connection
