"""How a function becomes a command, and what it runs with: a session.

`@command(app, example=…)` gives the function a `Session` as its first argument and adds `--dsn` and
`--json` to its own options.  Both may also stand before the noun: `penstock --json topic list`.

A session knows which server the command talks to and what it prints with.  What it has opened is
closed at its end.
"""

from __future__ import annotations

import asyncio
import functools
import getpass
import inspect
import os
import re
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from datetime import timedelta
from functools import cached_property
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

import psycopg
import typer
from psycopg.conninfo import conninfo_to_dict

from penstock import embedded, schema
from penstock.cli.arguments import DsnOption, JsonOption, SharedOptions
from penstock.cli.output import Output
from penstock.client.calls import Call
from penstock.client.calls.audit import record_action
from penstock.errors import (
    CallTimeout,
    DatabaseUnavailable,
    InvalidSetting,
    PenstockError,
    translated,
)
from penstock.postgres import connect
from penstock.postgres._sync.connections import TimedConnection
from penstock.postgres.call import run
from penstock.postgres.faults import LASTING_SECONDS, Overdue
from penstock.settings import Settings, variable

if TYPE_CHECKING:
    from penstock.tasks import TaskStore

T = TypeVar("T")
AnyConnection = psycopg.Connection[Any]

INTERRUPTED = 130

# Shorter fragments are libpq's own text, such as "=".
_SHORTEST_SECRET = 3
# Long enough for a restart of the server, short enough for a wrong address.
_PATIENCE = timedelta(seconds=5)
_MYSQL = ("mysql", "mariadb")


class BaseSession:
    """What a command prints with, and what it has opened; all of that is closed at the end."""

    def __init__(self, dsn: str | None, *, json: bool) -> None:
        # An empty --dsn is an unset shell variable: don't fall back to another server.
        if dsn is not None and not dsn.strip():
            raise typer.BadParameter(
                "is empty; leave it out to use the embedded server", param_hint="--dsn"
            )
        self.output = Output(json=json)
        self._closing = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._closing.close()


class Session(BaseSession):
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

    @property
    def found_settings(self) -> Settings:
        """The settings with the address of the server, the embedded one if that is meant."""
        return replace(self.settings, dsn=self.dsn)

    @cached_property
    def connection(self) -> TimedConnection:
        """A connection to a database that has the engine."""
        connection = self.connect()
        if self.is_embedded:
            self._install(connection)
        schema.check(connection)
        return connection

    def _install(self, connection: TimedConnection) -> None:
        """The embedded server belongs to this package, so its engine follows the package."""
        was_there = schema.installed_version(connection) is not None
        with connection.answering(None):
            has_changed = schema.follow(connection)
        if has_changed:
            brought = "brought the engine in it to the state of this package"
            self.output.note(brought if was_there else "installed the engine in it")

    def connect(self) -> TimedConnection:
        """Another connection, to a database with or without the engine."""
        return self._closing.enter_context(self.new_connection())

    def new_connection(self) -> TimedConnection:
        """The same, but the caller closes it: for threads."""
        try:
            return connect(self.found_settings)
        except PenstockError as problem:
            raise DatabaseUnavailable(without_secrets(str(problem), self.dsn)) from None

    def run(self, call: Call[T]) -> T:
        """Run a call on `connection`, alone or in the transaction that is open."""
        answer = run_limited(self.connection, call)
        self.connection.standby.require_confirmed()
        return answer

    @contextmanager
    def transaction(self) -> Iterator[TimedConnection]:
        """One transaction on `connection` for all calls of the block."""
        with translated(), self.connection.transaction():
            yield self.connection
        self.connection.standby.require_confirmed()

    def act(self, action: str, target: str | None, call: Call[T], **detail: Any) -> T:
        """Run a call and record it in the audit with the user's name, in one transaction."""
        with self.transaction():
            done = self.run(call)
            self.run(record_action(_user(), action, target, detail))
        return done

    def confirm(self, question: str, *, yes: bool) -> None:
        """Ask before something is lost for good."""
        if yes:
            return
        if not sys.stdin.isatty():
            raise typer.BadParameter(f"{question} Standard input is no terminal: add --yes.")
        typer.confirm(question, abort=True, err=True)


class TaskSession(BaseSession):
    """Opens the store that a command needs, and closes it at the end."""

    def __init__(self, dsn: str | None, *, json: bool) -> None:
        super().__init__(dsn, json=json)
        self._given = dsn

    @cached_property
    def dsn(self) -> str:
        """Where the database is; without a DSN the embedded server is started now."""
        if is_mysql(self._given):
            return self._given or os.environ[variable("dsn")]
        return self._postgres.dsn

    @cached_property
    def _postgres(self) -> Session:
        return self._closing.enter_context(Session(self._given, json=self.output.json))

    def store(self, **options: Any) -> TaskStore:
        """A store that is not opened yet."""
        # Imported only now: most commands need no tasks.
        from penstock.tasks import StoreOptions, open_store

        return open_store(self.dsn, StoreOptions(pool_size=2, retry_for=_PATIENCE, **options))

    def run(self, work: Callable[[TaskStore], Awaitable[T]], *, opened: bool = True) -> T:
        """Do something with the store, which is open meanwhile."""
        store = self.store()

        async def main() -> T:
            try:
                if opened:
                    await store.open()
                return await work(store)
            finally:
                await store.close()

        return asyncio.run(main())


def is_mysql(dsn: str | None) -> bool:
    """Whether a DSN leads to MySQL or MariaDB, which have tasks only."""
    given = dsn or os.environ.get(variable("dsn"), "")
    return given.partition(":")[0].partition("+")[0].strip().lower() in _MYSQL


class ReconnectingCaller:
    """Runs calls on a connection that is opened again when it was lost.

    For commands that run longer than a connection may last.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        # Opened now, so that a missing database or engine is an error at once.
        self._connection: TimedConnection | None = session.connection

    def __call__(self, call: Call[T]) -> T:
        try:
            if self._connection is None:
                self._connection = self._session.connect()
            return run_limited(self._connection, call)
        except PenstockError:
            if self._connection is not None and self._connection.broken:
                self._connection = None
            raise


def run_limited(connection: TimedConnection, call: Call[T]) -> T:
    """Run a call; one whose time grows with the data may take an hour, others `call_timeout`."""
    try:
        with connection.answering(LASTING_SECONDS if call.lasting else connection.answer_within):
            return run(connection, call)
    except DatabaseUnavailable as problem:
        if isinstance(problem.__cause__, Overdue):
            raise CallTimeout(
                f"{problem.__cause__}; {variable('call_timeout')} sets another limit"
            ) from problem
        raise


def _user() -> str:
    """The user's name on this machine; the database records the role as well."""
    try:
        return f"{getpass.getuser()} at the command line"
    except (KeyError, OSError):
        return "unknown user at the command line"


def load_settings(dsn: str | None) -> Settings:
    try:
        return Settings.load(dsn=dsn)
    except InvalidSetting as problem:
        given = dsn or os.environ.get(variable("dsn"), "")
        raise InvalidSetting(without_secrets(str(problem), given)) from None


def without_secrets(text: str, dsn: str) -> str:
    """Blank the password and every quoted piece of the DSN that might be one.

    libpq repeats whatever part of a DSN it could not use.
    """
    parts = _parts(dsn)
    if password := str(parts.get("password") or ""):
        text = text.replace(password, "…")
    # Host, port, user and database help to find the error; they may be shown.
    public = {str(parts.get(name)) for name in ("host", "port", "user", "dbname")}
    for piece in re.findall(r'"([^"]*)"', text):
        if len(piece) >= _SHORTEST_SECRET and piece in dsn and piece not in public:
            text = text.replace(f'"{piece}"', '"…"')
    # A "@" in a password that was not percent-encoded puts the rest of it before the host.
    host = str(parts.get("host", ""))
    return text.replace(host, f"…@{host.rpartition('@')[2]}") if "@" in host else text


def _parts(dsn: str) -> dict[str, object]:
    try:
        return dict(conninfo_to_dict(dsn))
    except (psycopg.ProgrammingError, UnicodeError):
        return {}


def command(
    app: typer.Typer,
    name: str | None = None,
    *,
    example: str,
    session: Callable[..., AbstractContextManager[Any]] = Session,
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Make a command of a function (session, **its own options)."""

    def register(function: Callable[..., None]) -> Callable[..., None]:
        app.command(name, epilog=f"Example: {example}", no_args_is_help=False)(
            _with_session(function, session)
        )
        return function

    return register


def _with_session(
    function: Callable[..., None], opened: Callable[..., AbstractContextManager[Any]]
) -> Callable[..., None]:
    @functools.wraps(function)
    def invoke(*, context: typer.Context, dsn: str | None, json: bool, **own: Any) -> None:
        before = context.obj if isinstance(context.obj, SharedOptions) else SharedOptions()
        try:
            with opened(before.dsn if dsn is None else dsn, json=json or before.json) as session:
                function(session, **own)
        except KeyboardInterrupt:
            raise typer.Exit(INTERRUPTED) from None

    parameters = [*_own_parameters(function), *_SHARED]
    invoke.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    invoke.__annotations__ = {each.name: each.annotation for each in parameters}
    return invoke


def _own_parameters(function: Callable[..., None]) -> list[inspect.Parameter]:
    _session, *own = inspect.signature(function, eval_str=True).parameters.values()
    return [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in own]


def _shared(
    name: str, annotation: Any, default: Any = inspect.Parameter.empty
) -> inspect.Parameter:
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default
    )


_SHARED = (
    _shared("context", typer.Context),
    _shared("dsn", DsnOption, None),
    _shared("json", JsonOption, default=False),
)
