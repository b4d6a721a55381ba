"""One run of the command line: which server it talks to, and how it speaks to the person."""

from __future__ import annotations

import getpass
import sys
from functools import cached_property
from typing import Any, TypeVar

import psycopg
import typer

from penstock import embedded, schema
from penstock.cli.opening import Opening
from penstock.cli.secrets import load_settings, without_secrets
from penstock.client.calls import Call
from penstock.client.calls.audit import record_action
from penstock.errors import DatabaseUnavailable, translate
from penstock.postgres.call import run
from penstock.settings import Settings

T = TypeVar("T")
AnyConnection = psycopg.Connection[Any]


class Session(Opening):
    """A database that has the engine, or the embedded server."""

    def __init__(self, dsn: str | None, *, json: bool) -> None:
        super().__init__(dsn, json=json)
        self.settings = load_settings(dsn)

    @property
    def is_embedded(self) -> bool:
        return self.settings.dsn is None

    @cached_property
    def dsn(self) -> str:
        """Where the server is; without a DSN the embedded one is started now."""
        if self.settings.dsn is not None:
            return self.settings.dsn
        server = self._closing.enter_context(embedded.server(settings=self.settings))
        self.output.note(f"using the embedded PostgreSQL in {server.folder}")
        return server.dsn

    @cached_property
    def connection(self) -> AnyConnection:
        """A connection to a database that has the engine."""
        connection = self.connect()
        if self.is_embedded:
            self._install(connection)
        schema.check(connection)
        return connection

    def _install(self, connection: AnyConnection) -> None:
        """The embedded server is ours alone, so its engine follows the package without a word."""
        was_there = schema.installed_version(connection) is not None
        if schema.follow(connection):
            brought = "brought the engine in it to the state of this package"
            self.output.note(brought if was_there else "installed the engine in it")

    def connect(self) -> AnyConnection:
        """Another connection of its own, engine or not."""
        return self._closing.enter_context(connect(self.dsn, self.settings))

    def run(self, call: Call[T]) -> T:
        return run(self.connection, call)

    def act(self, action: str, target: str | None, call: Call[T], **detail: Any) -> T:
        """Run a call that changes what others rely on, and note who did it: both, or neither."""
        with self.connection.transaction():
            done = self.run(call)
            self.run(record_action(_person(), action, target, detail))
        return done

    def confirm(self, question: str, *, yes: bool) -> None:
        """Ask before something is lost for good."""
        if yes:
            return
        if not sys.stdin.isatty():
            raise typer.BadParameter(f"{question} Standard input is no terminal: add --yes.")
        typer.confirm(question, abort=True, err=True)


def _person() -> str:
    """The user's name on this machine; the database records the role as well."""
    try:
        return f"{getpass.getuser()} at the command line"
    except (KeyError, OSError):
        return "unknown user at the command line"


def connect(dsn: str, settings: Settings) -> AnyConnection:
    try:
        return psycopg.connect(
            dsn,
            autocommit=True,
            connect_timeout=max(2, round(settings.connect_timeout.total_seconds())),
            application_name=settings.application_name,
        )
    except psycopg.Error as problem:
        raise DatabaseUnavailable(without_secrets(str(translate(problem)), dsn)) from None
